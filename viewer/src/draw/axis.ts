// An axis of time: where a moment is drawn, and which moments have a mark.

/** What of the time is in view: [from, to) ns on `width` pixels. */
export interface View {
  readonly from: number;
  readonly to: number;
}

/** Marks at round times, some `wanted` pixels apart. */
export function ticks(view: View, width: number, wanted = 110): number[] {
  const span = view.to - view.from;
  if (!(span > 0) || width <= 0) return [];
  const rough = (span * wanted) / width;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(view.from / step);
  const marks: number[] = [];
  for (let place = first; place * step < view.to; place += 1) marks.push(place * step);
  return marks;
}

/** What a mark says: enough digits to tell it from its neighbours, in the unit of the step. */
export function tickLabel(ns: number, step: number): string {
  const [unit, size] = step >= 1e9 ? ["s", 1e9] : step >= 1e6 ? ["ms", 1e6] : step >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  // Far from zero a coarser unit reads better than six digits.
  const far = Math.abs(ns) >= 1e5 * (size as number) && unit !== "s";
  const [shownUnit, shownSize] = far ? (unit === "ns" ? ["µs", 1e3] : unit === "µs" ? ["ms", 1e6] : ["s", 1e9]) : [unit, size];
  // As many as the step has: steps of 2.5 ms are not to be read as 3, 5 and 8.
  const unitSteps = step / (shownSize as number);
  let places = 0;
  while (places < 9 && Math.abs(unitSteps * 10 ** places - Math.round(unitSteps * 10 ** places)) > 1e-6 * unitSteps * 10 ** places) places += 1;
  return `${(ns / (shownSize as number)).toFixed(places)} ${shownUnit}`;
}

/** The view zoomed by a factor around a moment, inside of [least, most]. */
export function zoomed(view: View, around: number, factor: number, least: number, most: number, smallest = 20): View {
  const span = Math.min(Math.max((view.to - view.from) * factor, smallest), most - least);
  const share = (around - view.from) / (view.to - view.from);
  return moved({ from: around - share * span, to: around - share * span + span }, 0, least, most);
}

/** The view moved by some time, stopping at either end. */
export function moved(view: View, by: number, least: number, most: number): View {
  const span = Math.min(view.to - view.from, most - least);
  const from = Math.min(Math.max(view.from + by, least), most - span);
  return { from, to: from + span };
}
