// A tree by size: what is inside of what, and how much of it, from the top down.
import { useMemo } from "preact/hooks";
import { inkOn } from "../colour.ts";
import type { Column } from "../data/frame.ts";
import { lastPart, shortened } from "../format.ts";

export interface IcicleBox {
  readonly node: number;
  readonly x: number;
  readonly width: number;
  readonly depth: number;
}

const LEVEL = 22;

/**
 * Boxes for a tree given by parents (which come before their children), below `root` (-1: all roots).
 * Children lie in order below their parent, as wide as they are large; what is narrower than `least`
 * is left out, with all that is in it.
 */
export function icicle(parent: Column, value: Column, width: number, root = -1, least = 1): IcicleBox[] {
  const children = new Map<number, number[]>();
  for (let node = 0; node < parent.length; node += 1) {
    const above = parent[node] ?? -1;
    const list = children.get(above);
    if (list) list.push(node);
    else children.set(above, [node]);
  }
  const size = (node: number): number => value[node] || 0;
  for (const list of children.values()) list.sort((one, other) => size(other) - size(one) || one - other);
  const boxes: IcicleBox[] = [];
  const tops = root >= 0 ? [root] : (children.get(-1) ?? []);
  const whole = tops.reduce((sum, node) => sum + size(node), 0);
  const place = (nodes: readonly number[], x: number, perUnit: number, depth: number): void => {
    let left = x;
    for (const node of nodes) {
      const wide = size(node) * perUnit;
      if (wide >= least) {
        boxes.push({ node, x: left, width: wide, depth });
        place(children.get(node) ?? [], left, perUnit, depth + 1);
      }
      left += wide;
    }
  };
  if (whole > 0) place(tops, 0, width / whole, 0);
  return boxes;
}

interface Props {
  readonly label: string;
  readonly names: readonly string[];
  readonly parent: Column;
  readonly value: Column;
  readonly width: number;
  readonly root: number;
  readonly colour: (node: number) => string;
  readonly title: (node: number) => string;
  readonly chosen: (node: number) => boolean;
  readonly onChoose: (node: number) => void;
  readonly line: string;
  readonly ink: string;
}

export function Icicle({ label, names, parent, value, width, root, colour, title, chosen, onChoose, line, ink }: Props) {
  const boxes = useMemo(() => icicle(parent, value, width, root), [parent, value, width, root]);
  const depth = boxes.reduce((most, box) => Math.max(most, box.depth), 0) + 1;
  return (
    <svg class="icicle" width={width} height={depth * LEVEL + 1} role="img" aria-label={label} font-family="system-ui, sans-serif" font-size="12">
      {boxes.map((box) => {
        const fill = colour(box.node);
        const name = shortened(lastPart(names[box.node] ?? "") || names[box.node] || "all", 60);
        const fits = name.length * 6.6 + 8 < box.width;
        return (
          <g key={box.node} onClick={() => onChoose(box.node)} class="pick">
            <rect x={box.x} y={box.depth * LEVEL} width={Math.max(0.5, box.width - 1)} height={LEVEL - 1} fill={fill} stroke={chosen(box.node) ? ink : "none"} stroke-width="2">
              <title>{title(box.node)}</title>
            </rect>
            {fits && <text x={box.x + 5} y={box.depth * LEVEL + 15} fill={inkOn(fill)} pointer-events="none">{name}</text>}
          </g>
        );
      })}
      <rect width={width} height={depth * LEVEL} fill="none" stroke={line} stroke-width="0" />
    </svg>
  );
}
