// Which tiles a view needs, and what to draw until they are here.
//
// Level L has 2^L tiles over the whole run. A tile that is `whole` has every box of its stretch: nothing
// below it is needed. Until a tile is here (and in a report, where it may never come) the deepest of its
// ancestors that is here is drawn in its place, so the picture is coarse for a moment and never blank.
import type { Tile, TimelineFacts } from "../data/types.ts";
import type { View } from "./axis.ts";

export interface TilePlace {
  readonly level: number;
  readonly index: number;
}

/** A tile to draw, and between which moments. */
export interface Piece {
  readonly tile: Tile;
  readonly from: number;
  readonly to: number;
}

type Whole = Pick<TimelineFacts, "from_ns" | "to_ns" | "tile_columns" | "max_level">;

/** The level whose columns are about a pixel wide. */
export function levelFor(facts: Whole, view: View, width: number): number {
  const level = Math.ceil(Math.log2(((facts.to_ns - facts.from_ns) * width) / ((view.to - view.from) * facts.tile_columns)));
  return Number.isFinite(level) ? Math.min(Math.max(level, 0), facts.max_level) : 0;
}

/** The tiles of that level that cover the view. */
export function tilesFor(facts: Whole, view: View, width: number): TilePlace[] {
  const level = levelFor(facts, view, width);
  const span = (facts.to_ns - facts.from_ns) / 2 ** level;
  const first = Math.max(0, Math.floor((view.from - facts.from_ns) / span));
  const last = Math.min(2 ** level - 1, Math.ceil((view.to - facts.from_ns) / span) - 1);
  const places: TilePlace[] = [];
  for (let index = first; index <= last; index += 1) places.push({ level, index });
  return places;
}

export const parentOf = ({ level, index }: TilePlace): TilePlace => ({ level: level - 1, index: index >> 1 });

/**
 * What to draw of the tiles at hand. `look` gives a tile if it is here and asks for it if it is not;
 * `peek` only looks.
 */
export function pieces(
  facts: Whole,
  view: View,
  width: number,
  look: (place: TilePlace) => Tile | undefined,
  peek: (place: TilePlace) => Tile | undefined,
): Piece[] {
  const found: Piece[] = [];
  const span = facts.to_ns - facts.from_ns;
  look({ level: 0, index: 0 });
  for (const place of tilesFor(facts, view, width)) {
    const wholeAncestor = ancestors(place).map(peek).find((tile) => tile?.whole);
    let tile = wholeAncestor ?? look(place);
    for (let above = place; !tile && above.level > 0; ) {
      above = parentOf(above);
      tile = peek(above);
    }
    if (!tile) continue;
    const from = facts.from_ns + (span * place.index) / 2 ** place.level;
    const to = facts.from_ns + (span * (place.index + 1)) / 2 ** place.level;
    const before = found.at(-1);
    if (before?.tile === tile) found[found.length - 1] = { tile, from: before.from, to };
    else found.push({ tile, from, to });
  }
  return found;
}

/** From the top down, itself included. */
function ancestors(place: TilePlace): TilePlace[] {
  const line = [place];
  for (let above = place; above.level > 0; ) {
    above = parentOf(above);
    line.unshift(above);
  }
  return line;
}
