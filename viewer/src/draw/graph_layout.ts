// A layered layout of a directed graph, from the top down (after Sugiyama):
//
// 1. edges that close a cycle are turned around, the lightest first, so that every node has a rank: one
//    more than the highest of those that it reads from;
// 2. edges over several ranks get a place in each, so that lines bend around nodes;
// 3. nodes of a rank are ordered by the middle of their neighbours, down and up a few times, and the
//    order with the fewest crossings stays;
// 4. each is then moved towards its neighbours as far as those beside it allow.
//
// Nodes without edges come as a block below. The result depends on the input alone.

export interface LayoutNode {
  readonly width: number;
  readonly height: number;
}

export interface Placed {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly rank: number;
}

export interface Layout {
  /** By the number of the node; x and y are its middle. */
  readonly nodes: readonly Placed[];
  /** By the number of the edge: the points that it goes through. */
  readonly edges: readonly (readonly (readonly [number, number])[])[];
  readonly width: number;
  readonly height: number;
}

const ACROSS = 22;
const DOWN = 46;
const SWEEPS = 8;

/**
 * An order of nodes in which edges that go backwards weigh little together (after Eades, Lin and Smyth):
 * whatever nothing is left to read from comes last, whatever reads nothing first, and of a cycle first
 * the node that gives most in excess of what it takes. Without cycles no edge goes backwards.
 */
export function flowOrder(count: number, edges: readonly (readonly [number, number])[], weight: (edge: number) => number): number[] {
  const out: [number, number][][] = Array.from({ length: count }, () => []);
  const into: [number, number][][] = Array.from({ length: count }, () => []);
  const gives = new Array<number>(count).fill(0);
  const takes = new Array<number>(count).fill(0);
  const givers = new Array<number>(count).fill(0);
  const takers = new Array<number>(count).fill(0);
  edges.forEach(([from, to], edge) => {
    const heavy = weight(edge);
    out[from]?.push([to, heavy]);
    into[to]?.push([from, heavy]);
    gives[from] = (gives[from] ?? 0) + heavy;
    takes[to] = (takes[to] ?? 0) + heavy;
    takers[from] = (takers[from] ?? 0) + 1;
    givers[to] = (givers[to] ?? 0) + 1;
  });
  const left = new Set(Array.from({ length: count }, (_, node) => node));
  const first: number[] = [];
  const last: number[] = [];
  const free = Array.from(left).filter((node) => !givers[node] || !takers[node]);
  const take = (node: number): void => {
    left.delete(node);
    (givers[node] ? last : first).push(node);
    for (const [to, heavy] of out[node] ?? []) {
      takes[to] = (takes[to] ?? 0) - heavy;
      givers[to] = (givers[to] ?? 0) - 1;
      if (left.has(to) && !givers[to]) free.push(to);
    }
    for (const [from, heavy] of into[node] ?? []) {
      gives[from] = (gives[from] ?? 0) - heavy;
      takers[from] = (takers[from] ?? 0) - 1;
      if (left.has(from) && !takers[from]) free.push(from);
    }
  };
  while (left.size) {
    let node = free.shift();
    if (node === undefined) {
      const excess = (one: number): number => (gives[one] ?? 0) - (takes[one] ?? 0);
      node = Array.from(left).reduce((best, one) => (excess(one) > excess(best) ? one : best));
      givers[node] = 0;
    }
    if (left.has(node)) take(node);
  }
  return [...first, ...last.reverse()];
}

/** Ranks from the longest way down; edges that are turned around do not count. */
export function ranksOf(count: number, edges: readonly (readonly [number, number])[], weight: (edge: number) => number = () => 1): { ranks: number[]; turned: Set<number> } {
  const order = flowOrder(count, edges, weight);
  const place = new Array<number>(count).fill(0);
  order.forEach((node, at) => { place[node] = at; });
  const out: number[][] = Array.from({ length: count }, () => []);
  const turned = new Set<number>();
  edges.forEach(([from, to], edge) => {
    if ((place[from] ?? 0) >= (place[to] ?? 0)) turned.add(edge);
    else out[from]?.push(to);
  });
  const ranks = new Array<number>(count).fill(0);
  for (const node of order) {
    for (const to of out[node] ?? []) ranks[to] = Math.max(ranks[to] ?? 0, (ranks[node] ?? 0) + 1);
  }
  return { ranks, turned };
}

/** How often edges between two neighbouring ranks cross, given the places of their ends. */
export function crossings(pairs: readonly (readonly [number, number])[]): number {
  const sorted = [...pairs].sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  let count = 0;
  for (let one = 0; one < sorted.length; one += 1) {
    for (let other = one + 1; other < sorted.length; other += 1) {
      if ((sorted[one]?.[1] ?? 0) > (sorted[other]?.[1] ?? 0) && (sorted[one]?.[0] ?? 0) < (sorted[other]?.[0] ?? 0)) count += 1;
    }
  }
  return count;
}

export function layout(nodes: readonly LayoutNode[], given: readonly (readonly [number, number])[], weights?: ArrayLike<number>): Layout {
  const edges = given.map(([from, to]) => [from, to] as const);
  const touched = new Set(edges.filter(([from, to]) => from !== to).flat());
  const proper = edges.map(([from, to], edge) => ({ from, to, edge })).filter(({ from, to }) => from !== to);
  const { ranks, turned } = ranksOf(nodes.length, proper.map(({ from, to }) => [from, to] as const), (at) => weights?.[proper[at]?.edge ?? 0] ?? 1);

  // Places: the nodes, then one for each rank that an edge passes.
  const width = nodes.map((node) => node.width);
  const rank = [...ranks];
  const links: [number, number][] = [];
  const chains = new Map<number, number[]>();
  proper.forEach(({ from, to, edge }, at) => {
    const [start, end] = turned.has(at) || (ranks[from] ?? 0) > (ranks[to] ?? 0) ? [to, from] : [from, to];
    const chain = [start];
    for (let between = (ranks[start] ?? 0) + 1; between < (ranks[end] ?? 0); between += 1) {
      chain.push(width.length);
      width.push(8);
      rank.push(between);
    }
    chain.push(end);
    for (let step = 1; step < chain.length; step += 1) links.push([chain[step - 1] as number, chain[step] as number]);
    chains.set(edge, start === from ? chain : [...chain].reverse());
  });

  const layers: number[][] = [];
  for (let place = 0; place < width.length; place += 1) {
    if (place < nodes.length && !touched.has(place)) continue;
    (layers[rank[place] ?? 0] ??= []).push(place);
  }
  const above: number[][] = width.map(() => []);
  const below: number[][] = width.map(() => []);
  for (const [from, to] of links) {
    below[from]?.push(to);
    above[to]?.push(from);
  }
  order(layers, above, below);
  const x = spread(layers, width, above, below);

  const heights = layers.map((layer) => layer.reduce((most, place) => Math.max(most, nodes[place]?.height ?? 0), 20));
  const y: number[] = [];
  let down = 0;
  heights.forEach((height, at) => {
    y[at] = down + height / 2;
    down += height + DOWN;
  });
  const least = layers.flat().reduce((low, place) => Math.min(low, (x[place] ?? 0) - (width[place] ?? 0) / 2), Number.POSITIVE_INFINITY);
  const shift = Number.isFinite(least) ? least : 0;
  const right = layers.flat().reduce((most, place) => Math.max(most, (x[place] ?? 0) + (width[place] ?? 0) / 2), 0) - shift;

  // What has no edges: a block below, about as wide as the rest.
  const alone = nodes.map((_, node) => node).filter((node) => !touched.has(node));
  const placed: Placed[] = nodes.map((node, at) => ({ x: (x[at] ?? 0) - shift, y: y[ranks[at] ?? 0] ?? 0, width: node.width, height: node.height, rank: ranks[at] ?? 0 }));
  const room = Math.max(right, Math.sqrt(alone.length) * 220, 200);
  let [left, row, most] = [0, down, 0];
  for (const node of alone) {
    const { width: wide, height } = nodes[node] as LayoutNode;
    if (left > 0 && left + wide > room) [left, row] = [0, row + height + 14];
    placed[node] = { x: left + wide / 2, y: row + height / 2, width: wide, height, rank: layers.length };
    left += wide + ACROSS;
    most = Math.max(most, left - ACROSS);
    down = row + height + DOWN;
  }
  const lines = edges.map(([from, to], edge) => {
    const chain = chains.get(edge);
    if (!chain) return [];
    const upwards = (ranks[from] ?? 0) > (ranks[to] ?? 0);
    return chain.map((place, step): readonly [number, number] => {
      const at = (x[place] ?? 0) - shift;
      const middle = y[rank[place] ?? 0] ?? 0;
      if (step === 0) return [at, middle + ((upwards ? -1 : 1) * (nodes[place]?.height ?? 0)) / 2];
      if (step === chain.length - 1) return [at, middle + ((upwards ? 1 : -1) * (nodes[place]?.height ?? 0)) / 2];
      return [at, middle];
    });
  });
  return { nodes: placed, edges: lines, width: Math.max(right, most), height: Math.max(0, down - DOWN) };
}

/** Sorts each rank by the middle of its neighbours; the best of all sweeps stays. */
function order(layers: number[][], above: readonly number[][], below: readonly number[][]): void {
  const place = new Map<number, number>();
  const note = (layer: readonly number[]): void => layer.forEach((one, at) => place.set(one, at));
  layers.forEach(note);
  const count = (): number => {
    let sum = 0;
    for (const layer of layers) {
      const pairs = layer.flatMap((one) => (below[one] ?? []).map((to) => [place.get(one) ?? 0, place.get(to) ?? 0] as const));
      // Of very many edges the number of crossings is not worth its time.
      if (pairs.length < 1500) sum += crossings(pairs);
    }
    return sum;
  };
  let best = layers.map((layer) => [...layer]);
  let fewest = count();
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep += 1) {
    const downwards = sweep % 2 === 0;
    const towards = downwards ? above : below;
    for (let step = 1; step < layers.length; step += 1) {
      const layer = layers[downwards ? step : layers.length - 1 - step] as number[];
      const middle = new Map(layer.map((one, at) => {
        const near = towards[one] ?? [];
        return [one, near.length ? near.reduce((sum, other) => sum + (place.get(other) ?? 0), 0) / near.length : at];
      }));
      layer.sort((one, other) => (middle.get(one) ?? 0) - (middle.get(other) ?? 0) || (place.get(one) ?? 0) - (place.get(other) ?? 0));
      note(layer);
    }
    const now = count();
    if (now < fewest) {
      fewest = now;
      best = layers.map((layer) => [...layer]);
    }
  }
  best.forEach((layer, at) => {
    layers[at] = layer;
    note(layer);
  });
}

/** The middle of each place: near its neighbours, in order, and never over another. */
function spread(layers: readonly (readonly number[])[], width: readonly number[], above: readonly number[][], below: readonly number[][]): number[] {
  const x: number[] = [];
  for (const layer of layers) {
    let left = 0;
    for (const place of layer) {
      x[place] = left + (width[place] ?? 0) / 2;
      left += (width[place] ?? 0) + ACROSS;
    }
    for (const place of layer) x[place] = (x[place] ?? 0) - left / 2;
  }
  for (let sweep = 0; sweep < 10; sweep += 1) {
    const down = sweep % 2 === 0;
    for (let step = 0; step < layers.length; step += 1) {
      const layer = layers[down ? step : layers.length - 1 - step] ?? [];
      const wanted = layer.map((place) => {
        const near = [...((down ? above : below)[place] ?? [])];
        return near.length ? near.reduce((sum, other) => sum + (x[other] ?? 0), 0) / near.length : (x[place] ?? 0);
      });
      settle(layer, wanted, width, x);
    }
  }
  return x;
}

/** Places as near to where they want to be as their order allows: groups that collide share their mean. */
function settle(layer: readonly number[], wanted: readonly number[], width: readonly number[], x: number[]): void {
  interface Group {
    first: number;
    last: number;
    /** Sum of (wanted - offset in the group), and how many. */
    sum: number;
    count: number;
    start: number;
  }
  const offset: number[] = [];
  const groups: Group[] = [];
  const gap = (one: number, other: number): number => (width[layer[one] ?? 0] ?? 0) / 2 + ACROSS + (width[layer[other] ?? 0] ?? 0) / 2;
  for (let at = 0; at < layer.length; at += 1) {
    offset[at] = 0;
    groups.push({ first: at, last: at, sum: wanted[at] ?? 0, count: 1, start: wanted[at] ?? 0 });
    while (groups.length > 1) {
      const [before, last] = groups.slice(-2) as [Group, Group];
      const needed = before.start + (offset[before.last] ?? 0) + gap(before.last, last.first);
      if (last.start >= needed) break;
      const shift = (offset[before.last] ?? 0) + gap(before.last, last.first);
      for (let one = last.first; one <= last.last; one += 1) offset[one] = (offset[one] ?? 0) + shift;
      before.sum += last.sum - last.count * shift;
      before.count += last.count;
      before.last = last.last;
      before.start = before.sum / before.count;
      groups.pop();
    }
  }
  for (const group of groups) {
    for (let at = group.first; at <= group.last; at += 1) x[layer[at] ?? 0] = group.start + (offset[at] ?? 0);
  }
}

/** A line through points, rounded. */
export function edgePath(points: readonly (readonly [number, number])[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first[0].toFixed(1)} ${first[1].toFixed(1)}`;
  let before = first;
  for (const point of rest) {
    const middle = (before[1] + point[1]) / 2;
    path += `C${before[0].toFixed(1)} ${middle.toFixed(1)} ${point[0].toFixed(1)} ${middle.toFixed(1)} ${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    before = point;
  }
  return path;
}
