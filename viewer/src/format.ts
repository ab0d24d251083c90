// Numbers and names as people read them: the same words as the command line's, to the last digit
// (`stepscope.metadata.readable`).

const TIMES: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
const SIZES: [number, string][] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];

/** `toFixed`, with a tie going to the even digit, as Python has it. */
function fixed(value: number, places: number): string {
  const scaled = Math.abs(value) * 10 ** places;
  const tie = scaled % 1 === 0.5 && Number.isInteger(value * 2 ** (places + 1));
  if (!tie) return value.toFixed(places);
  const even = Math.floor(scaled) % 2 === 0 ? Math.floor(scaled) : Math.ceil(scaled);
  return ((Math.sign(value) * even) / 10 ** places).toFixed(places);
}

function commas(digits: string): string {
  const [whole = "", part] = digits.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part === undefined ? grouped : `${grouped}.${part}`;
}

/** `1.23`, `12.3`, `123`, `1,234`. */
export function threeDigits(value: number): string {
  const size = Math.abs(value);
  return commas(fixed(value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0));
}

function inUnits(value: number, units: [number, string][], smallest: string): string {
  for (const [size, unit] of units) {
    if (Math.abs(value) >= size * 0.9995) return `${threeDigits(value / size)} ${unit}`;
  }
  return `${smallest === "B" ? value : fixed(value, 0)} ${smallest}`;
}

/** `1.23 ms`; `-` where nothing was measured. */
export function time(ns: number | null | undefined): string {
  return ns === null || ns === undefined || Number.isNaN(ns) ? "-" : inUnits(ns, TIMES, "ns");
}

/** `3.81 MiB`; `-` where nothing was measured. */
export function size(bytes: number | null | undefined): string {
  return bytes === null || bytes === undefined || Number.isNaN(bytes) ? "-" : inUnits(bytes, SIZES, "B");
}

/** As `time`, with `-` for none: what stands in tables. */
export const spent = (ns: number | null | undefined): string => (ns ? time(ns) : "-");

/** As `size`, with `-` for none: what stands in tables. */
export const held = (bytes: number | null | undefined): string => (bytes ? size(bytes) : "-");

/** `12,000`; `-` for none. */
export const count = (value: number | null | undefined): string => (value ? commas(String(value)) : "-");

/** `12,000`, `0`. */
export const whole = (value: number): string => commas(String(value));

/** `12.3%`. */
export function share(fraction: number | null | undefined): string {
  return fraction === null || fraction === undefined || Number.isNaN(fraction) ? "-" : `${fixed(fraction * 100, 1)}%`;
}

/** `+12.3%`, for changes. */
export function change(fraction: number): string {
  if (!Number.isFinite(fraction)) return fraction > 0 ? "new" : "-";
  return `${fraction > 0 ? "+" : ""}${fixed(fraction * 100, 1)}%`;
}

/** `1 run`, `2 runs`. */
export const number = (value: number, what: string, plural = `${what}s`): string =>
  `${whole(value)} ${value === 1 ? what : plural}`;

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text on one line, with all that does something else than be seen made visible. */
export function plain(text: string): string {
  return text.replace(UNPRINTABLE, (character) => {
    const short = SHORT[character];
    if (short) return short;
    const code = character.codePointAt(0) ?? 0;
    const digits = code.toString(16);
    if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
  });
}

/** A name that may be very long, with its middle left out. */
export function shortened(text: string, most = 160): string {
  // A megabyte of a name is cut before anything looks at each of its characters.
  const near = text.length > most * 4 ? text.slice(0, most * 2) + "…" + text.slice(-most) : text;
  const shown = plain(near);
  if (shown.length <= most) return shown;
  const end = Math.floor(most / 3);
  return `${shown.slice(0, most - end - 1)}…${shown.slice(-end)}`;
}

/** The last part of a name of scopes: `dense/MatMul` is `MatMul`. */
export const lastPart = (name: string): string => name.slice(name.lastIndexOf("/") + 1);
