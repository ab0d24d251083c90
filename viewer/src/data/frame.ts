// The framing of a resource: JSON, and beside it the columns as typed arrays.
//
//   "SSC1", length of the JSON (uint32), JSON, arrays at multiples of 8 bytes
//
// In the JSON an array stands as {"$": ["f64", offset, length]}.

export type Column = ArrayLike<number>;

/** A column of text: row i is `table[codes[i]]`. */
export interface Strings {
  readonly table: readonly string[];
  readonly codes: Column;
}

/** Row i of a column of text. */
export const text = (column: Strings, row: number): string => column.table[column.codes[row] ?? -1] ?? "";

const ARRAYS = {
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f32: Float32Array, f64: Float64Array,
} as const;

function isKind(kind: unknown): kind is keyof typeof ARRAYS {
  return typeof kind === "string" && Object.hasOwn(ARRAYS, kind);
}

/** The value in a frame. Its arrays are views of the frame's bytes, not copies. */
export function decode(buffer: ArrayBuffer): unknown {
  const head = new DataView(buffer);
  if (buffer.byteLength < 8 || head.getUint32(0) !== 0x53534331) {
    throw new Error("this is no frame of Stepscope's");
  }
  const length = head.getUint32(4, true);
  const json = new TextDecoder().decode(new Uint8Array(buffer, 8, length));
  return JSON.parse(json, (_key, value: unknown) => {
    if (typeof value !== "object" || value === null || !("$" in value)) return value;
    const place = (value as { $: unknown }).$;
    if (!Array.isArray(place) || place.length !== 3 || !isKind(place[0])) return value;
    return new ARRAYS[place[0]](buffer, Number(place[1]), Number(place[2]));
  });
}

/** A frame without typed arrays around a value: what the development server sends. */
export function encode(value: unknown): ArrayBuffer {
  const json = new TextEncoder().encode(JSON.stringify(value));
  const length = Math.ceil(json.length / 8) * 8;
  const frame = new Uint8Array(8 + length).fill(32);
  frame.set([0x53, 0x53, 0x43, 0x31]);
  new DataView(frame.buffer).setUint32(4, length, true);
  frame.set(json, 8);
  return frame.buffer;
}
