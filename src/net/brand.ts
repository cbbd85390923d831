declare const brand: unique symbol

/** A primitive that has passed a parser: only the parser can make one, so holding one is proof of validity. */
export type Branded<T, Name extends string> = T & { readonly [brand]: Name }
