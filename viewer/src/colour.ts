// Colours that mean something, the same on every page, in light and dark from one list.
//
// The seven meanings are told apart by people who see colours differently (test/colour.test.ts simulates
// that), and each has a second sign: a hatch.

export type Category = "computing" | "waiting" | "transfer" | "input" | "python" | "overhead" | "failure";
export type Hatch = "" | "rising" | "falling" | "dots" | "cross" | "lines";

export interface Meaning {
  readonly label: string;
  readonly light: string;
  readonly dark: string;
  readonly hatch: Hatch;
}

export const MEANINGS: Readonly<Record<Category, Meaning>> = {
  computing: { label: "computing", light: "#4268bb", dark: "#5a76d8", hatch: "" },
  waiting: { label: "waiting", light: "#cdd4da", dark: "#464a59", hatch: "rising" },
  transfer: { label: "transfer", light: "#42397d", dark: "#b2ace6", hatch: "lines" },
  input: { label: "input", light: "#e6b840", dark: "#d89b22", hatch: "falling" },
  python: { label: "Python", light: "#65ab9a", dark: "#69c6be", hatch: "dots" },
  overhead: { label: "overhead", light: "#91665a", dark: "#96887c", hatch: "cross" },
  failure: { label: "failure", light: "#c43226", dark: "#f17657", hatch: "" },
};

/** Which meaning a part of the Overview's bar has; "" is nothing at all. */
export const BAR_MEANING: Readonly<Record<string, Category | "">> = {
  computing: "computing",
  input: "input",
  threads: "waiting",
  transfers: "transfer",
  python_ops: "python",
  calling: "overhead",
  nothing: "",
};

/** Muted colours for what has no meaning but its name: op types, layers, devices. 36 hues, each in two shades. */
const NAMED = { hues: 36, shades: 2, saturation: [0.36, 0.34], light: [0.6, 0.7], dark: [0.56, 0.46] } as const;

function ofHue(hue: number, saturation: number, lightness: number): string {
  const strength = saturation * Math.min(lightness, 1 - lightness);
  const part = (turn: number): number => {
    const place = (turn + hue / 30) % 12;
    return 255 * (lightness - strength * Math.max(-1, Math.min(place - 3, 9 - place, 1)));
  };
  return hex([part(0), part(8), part(4)]);
}

/** A number that depends on the text alone (FNV-1a). */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let place = 0; place < text.length && place < 512; place += 1) {
    value = Math.imul(value ^ text.charCodeAt(place), 0x01000193);
  }
  // The low bits of FNV are weak where texts differ in their last letter only.
  return (value ^ (value >>> 15)) >>> 0;
}

export interface Theme {
  readonly dark: boolean;
  readonly ground: string;
  readonly raised: string;
  readonly line: string;
  readonly faint: string;
  readonly text: string;
  readonly quiet: string;
  readonly accent: string;
  readonly font: string;
}

export const LIGHT: Theme = {
  dark: false, ground: "#fdfdfc", raised: "#f4f4f2", line: "#dedfdc", faint: "#ecedea", text: "#22262b",
  quiet: "#646b73", accent: "#2a5fa5", font: "12px system-ui, -apple-system, 'Segoe UI', sans-serif",
};

export const DARK: Theme = {
  dark: true, ground: "#16181b", raised: "#1f2226", line: "#343940", faint: "#26292e", text: "#e3e5e8",
  quiet: "#979fa9", accent: "#82b1ee", font: LIGHT.font,
};

export const meaning = (category: string): Meaning => MEANINGS[category as Category] ?? MEANINGS.overhead;

export const categoryColour = (category: string, theme: Theme): string =>
  theme.dark ? meaning(category).dark : meaning(category).light;

/** The stable colour of a name. */
export function namedColour(name: string, theme: Theme): string {
  const number = hash(name) % (NAMED.hues * NAMED.shades);
  const shade = number % NAMED.shades;
  const lightness = (theme.dark ? NAMED.dark : NAMED.light)[shade] ?? 0.5;
  return ofHue((Math.floor(number / NAMED.shades) * 360) / NAMED.hues, NAMED.saturation[shade] ?? 0.3, lightness);
}

export type Rgb = readonly [number, number, number];

export function rgb(colour: string): Rgb {
  const value = Number.parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

export const hex = (colour: Rgb): string =>
  `#${colour.map((part) => Math.round(Math.max(0, Math.min(255, part))).toString(16).padStart(2, "0")).join("")}`;

/** From one colour to another: 0 is the first, 1 the second. */
export function between(from: string, to: string, share: number): string {
  const [start, end] = [rgb(from), rgb(to)];
  const at = Math.max(0, Math.min(1, share));
  return hex([0, 1, 2].map((part) => (start[part] ?? 0) + ((end[part] ?? 0) - (start[part] ?? 0)) * at) as unknown as Rgb);
}

/** The colour of an amount, 0 to 1, one hue from pale to strong: for time and memory in the graph. */
export const amountColour = (amount: number, theme: Theme, what: "time" | "memory"): string =>
  between(
    theme.dark ? "#2a2e34" : "#eef1f4",
    what === "time" ? (theme.dark ? "#c9822f" : "#dc8b2a") : theme.dark ? "#7a63b8" : "#7a5fb5",
    amount <= 0 ? 0 : 0.08 + 0.92 * Math.sqrt(amount),
  );

/** Slower or larger is warm, faster or smaller is cool; -1 to 1. */
export function changeColour(change: number, theme: Theme): string {
  const pale = theme.dark ? "#2f3339" : "#e9ebed";
  const strong = change > 0 ? (theme.dark ? "#d9763f" : "#d9652b") : theme.dark ? "#4d8fd1" : "#3d80c4";
  return between(pale, strong, Math.sqrt(Math.min(1, Math.abs(change))));
}

/** Black or white, whichever can be read on a colour. */
export function inkOn(colour: string): string {
  const [red, green, blue] = rgb(colour);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#16181b" : "#ffffff";
}
