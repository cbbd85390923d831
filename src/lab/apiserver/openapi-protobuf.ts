import type { Dict } from './json.ts'
import { dictOf, listOf, textOf } from './json.ts'
import { ProtoWriter } from './protobuf.ts'

/**
 * A Swagger 2.0 document in the protocol buffers form that older clients insist on (gnostic's OpenAPIv2.proto, which
 * the field numbers are from). Encodes only what this server's documents contain.
 */
export function encodeOpenApiV2(document: Dict): Buffer {
  const info = dictOf(document['info'])
  return new ProtoWriter()
    .bytes(1, textOf(document['swagger']))
    .bytes(2, new ProtoWriter().bytes(1, textOf(info['title'])).bytes(2, textOf(info['version'])).finish())
    .bytes(8, named(dictOf(document['paths']), 2, pathItem))
    .bytes(9, named(dictOf(document['definitions']), 1, schema))
    .finish()
}

/** A map as repeated name-value messages in `field`. */
function named(map: Dict, field: number, encode: (value: Dict) => Buffer): Buffer {
  const writer = new ProtoWriter()
  for (const [name, value] of Object.entries(map)) {
    writer.bytes(
      field,
      new ProtoWriter()
        .bytes(1, name)
        .bytes(2, encode(dictOf(value)))
        .finish(),
    )
  }
  return writer.finish()
}

function pathItem(item: Dict): Buffer {
  const fields = { get: 2, put: 3, post: 4, delete: 5, patch: 8 }
  const writer = new ProtoWriter()
  for (const [method, field] of Object.entries(fields)) {
    if (item[method] !== undefined) writer.bytes(field, operation(dictOf(item[method])))
  }
  return writer.finish()
}

function operation(item: Dict): Buffer {
  const writer = new ProtoWriter().bytes(5, textOf(item['operationId']))
  for (const parameter of listOf<Dict>(item['parameters'])) writer.bytes(8, queryParameter(parameter))
  writer.bytes(9, Buffer.alloc(0))
  return extensions(writer, 13, item).finish()
}

/** ParametersItem → Parameter → NonBodyParameter → QueryParameterSubSchema. */
function queryParameter(parameter: Dict): Buffer {
  const query = new ProtoWriter()
    .bytes(2, textOf(parameter['in']))
    .bytes(4, textOf(parameter['name']))
    .bytes(6, textOf(parameter['type']))
    .finish()
  const nonBody = new ProtoWriter().bytes(3, query).finish()
  return new ProtoWriter().bytes(1, new ProtoWriter().bytes(2, nonBody).finish()).finish()
}

function schema(item: Dict): Buffer {
  const writer = new ProtoWriter()
    .bytes(1, textOf(item['$ref']))
    .bytes(2, textOf(item['format']))
    .bytes(4, textOf(item['description']))
  if (item['additionalProperties'] !== undefined) {
    writer.bytes(21, new ProtoWriter().bytes(1, schema(dictOf(item['additionalProperties']))).finish())
  }
  if (item['type'] !== undefined) writer.bytes(22, new ProtoWriter().bytes(1, textOf(item['type'])).finish())
  if (item['items'] !== undefined) {
    writer.bytes(23, new ProtoWriter().bytes(1, schema(dictOf(item['items']))).finish())
  }
  if (item['properties'] !== undefined) writer.bytes(25, named(dictOf(item['properties']), 1, schema))
  return extensions(writer, 31, item).finish()
}

/** `x-…` members as NamedAny with a YAML value, of which JSON is a part. */
function extensions(writer: ProtoWriter, field: number, item: Dict): ProtoWriter {
  for (const [name, value] of Object.entries(item)) {
    if (!name.startsWith('x-')) continue
    const any = new ProtoWriter().bytes(2, JSON.stringify(value)).finish()
    writer.bytes(field, new ProtoWriter().bytes(1, name).bytes(2, any).finish())
  }
  return writer
}
