/** Numbers of the nf_tables netlink protocol (linux/netfilter/nf_tables.h, nfnetlink.h), by their names without prefix. */

export const NFNL_BATCH_BEGIN = 0x10
export const NFNL_BATCH_END = 0x11
export const NFNL_SUBSYS_NFTABLES = 10
/** Attribute of BATCH_BEGIN: the generation that the writer believes in. */
export const NFNL_BATCH_GENID = 1
export const NFNLGRP_NFTABLES = 7

export const NLM_F_CREATE = 0x400
export const NLM_F_APPEND = 0x800

/** Message types, with the subsystem in the upper byte. */
export const MSG = {
  NEWTABLE: 0xa00,
  GETTABLE: 0xa01,
  DELTABLE: 0xa02,
  NEWCHAIN: 0xa03,
  GETCHAIN: 0xa04,
  DELCHAIN: 0xa05,
  NEWRULE: 0xa06,
  GETRULE: 0xa07,
  DELRULE: 0xa08,
  NEWSET: 0xa09,
  GETSET: 0xa0a,
  DELSET: 0xa0b,
  NEWSETELEM: 0xa0c,
  GETSETELEM: 0xa0d,
  DELSETELEM: 0xa0e,
  NEWGEN: 0xa0f,
  GETGEN: 0xa10,
} as const

export const TABLE = { NAME: 1, FLAGS: 2, USERDATA: 6, OWNER: 7 } as const
export const TABLE_FLAG = { DORMANT: 1, OWNER: 2, PERSIST: 4 } as const

export const CHAIN = { TABLE: 1, NAME: 3, HOOK: 4, POLICY: 5, TYPE: 7, USERDATA: 12 } as const
export const HOOK = { NUMBER: 1, PRIORITY: 2 } as const

export const RULE = { TABLE: 1, CHAIN: 2, HANDLE: 3, EXPRESSIONS: 4, USERDATA: 7 } as const

export const SET = {
  TABLE: 1,
  NAME: 2,
  FLAGS: 3,
  KEY_TYPE: 4,
  KEY_LEN: 5,
  DATA_TYPE: 6,
  DATA_LEN: 7,
  DESC: 9,
  ID: 10,
  TIMEOUT: 11,
  USERDATA: 13,
} as const
export const SET_DESC = { SIZE: 1, CONCAT: 2 } as const
export const SET_FIELD_LEN = 1
export const SET_FLAG = {
  ANONYMOUS: 1,
  CONSTANT: 2,
  INTERVAL: 4,
  MAP: 8,
  TIMEOUT: 0x10,
  EVAL: 0x20,
  OBJECT: 0x40,
  CONCAT: 0x80,
} as const
/** The data type that says "verdict" in NFTA_SET_DATA_TYPE. */
export const DATA_TYPE_VERDICT = 0xffffff00

export const ELEM = {
  KEY: 1,
  DATA: 2,
  FLAGS: 3,
  TIMEOUT: 4,
  EXPIRATION: 5,
  USERDATA: 6,
  KEY_END: 10,
} as const
export const ELEM_FLAG = { INTERVAL_END: 1, CATCHALL: 2 } as const
export const ELEM_LIST = { TABLE: 1, SET: 2, ELEMENTS: 3, SET_ID: 4 } as const

export const LIST_ELEM = 1
export const DATA = { VALUE: 1, VERDICT: 2 } as const
export const VERDICT = { CODE: 1, CHAIN: 2 } as const
export const EXPR = { NAME: 1, DATA: 2 } as const
export const GEN_ID = 1

export const VERDICT_CODE = { drop: 0, accept: 1, continue: -1, jump: -3, goto: -4, return: -5 } as const

export const FAMILY_NUMBER = { inet: 1, ip: 2, ip6: 10 } as const
/** Every nf_tables family, for naming tables that are not ours. */
export const FAMILY_NAMES: Readonly<Record<number, string>> = {
  1: 'inet',
  2: 'ip',
  3: 'arp',
  5: 'netdev',
  7: 'bridge',
  10: 'ip6',
}

export const HOOK_NUMBER = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const
