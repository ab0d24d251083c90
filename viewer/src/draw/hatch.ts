// The second sign of a meaning, beside its colour: lines or dots over the box.
import type { Hatch } from "../colour.ts";

/** The lines of a hatch's 8 by 8 cell: what canvas and SVG both draw. */
export const HATCHES: Readonly<Record<Exclude<Hatch, "">, string>> = {
  rising: "M-2 10 L10 -2 M-2 2 L2 -2 M6 10 L10 6",
  falling: "M-2 -2 L10 10 M-2 6 L2 10 M6 -2 L10 2",
  lines: "M0 2 H8 M0 6 H8",
  cross: "M-1 9 L9 -1 M-1 -1 L9 9",
  dots: "M1.5 2 h1.2 M5.5 6 h1.2",
};

export type Patterns = Readonly<Record<Exclude<Hatch, "">, CanvasPattern | null>>;

/** Patterns to fill with. `cell` makes a canvas of 8 by 8 pixels. */
export function patterns(context: CanvasRenderingContext2D, ink: string): Patterns {
  const made: Record<string, CanvasPattern | null> = {};
  for (const [name, lines] of Object.entries(HATCHES)) {
    const cell = document.createElement("canvas");
    cell.width = cell.height = 8;
    const drawing = cell.getContext("2d");
    if (!drawing) continue;
    drawing.strokeStyle = ink;
    drawing.lineWidth = 1.1;
    drawing.stroke(new Path2D(lines));
    made[name] = context.createPattern(cell, "repeat");
  }
  return made as Patterns;
}
