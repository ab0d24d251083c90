// A test double of the server: every resource, for a training program that never was.
//
// `npm run dev` serves it, and unit tests ask it. It depends on nothing but its arguments, so that
// whatever is drawn from it can be compared.
import { Failure, type Source } from "../src/data/source.ts";
import type { Strings } from "../src/data/frame.ts";

interface DoubleOp {
  readonly name: string;
  readonly type: string;
  readonly layer: string;
  readonly line: string;
  readonly lane: number;
  readonly start: number;
  readonly ns: number;
  readonly bytes: number;
  readonly category: number;
  readonly inputs: readonly string[];
}

const CATEGORIES = ["computing", "waiting", "transfer", "input", "python", "overhead", "failure"];
const LAYERS = ["conv_1", "conv_2", "dense_1", "dense_2", "loss"];

/** Numbers that look random and are always the same. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function strings(rows: readonly string[]): Strings {
  const table = [...new Set(rows)];
  const codes = new Map(table.map((text, code) => [text, code]));
  return { table, codes: rows.map((row) => codes.get(row) ?? 0) };
}

/** The ops of one run: some of input, forward, backward and optimizer, on three threads. */
export function opsOf(repeat: number): DoubleOp[] {
  const random = numbers(7);
  const ops: DoubleOp[] = [];
  let now = 0;
  const add = (name: string, type: string, layer: string, line: string, long: number, inputs: readonly string[], lane = 0, category = 0): string => {
    const ns = Math.round(long * (0.8 + 0.4 * random()));
    ops.push({ name, type, layer, line, lane, start: now, ns, bytes: Math.round(long * 12), category, inputs });
    if (lane === 0) now += ns + Math.round(500 * random());
    return name;
  };
  for (let round = 0; round < repeat; round += 1) {
    const at = round ? `_${round}` : "";
    let last = add(`input/map${at}`, "PyFunc", "", "input.py:6", 4_000_000, [], 0, 4);
    last = add(`input/IteratorGetNext${at}`, "IteratorGetNext", "", "input.py:9", 2_600_000, [last], 0, 3);
    for (const [place, layer] of LAYERS.entries()) {
      const line = `model.py:${12 + place}`;
      const product = add(`${layer}/MatMul${at}`, "MatMul", layer, line, 1_800_000 - place * 200_000, [last]);
      add(`${layer}/prefetch${at}`, "Prefetch", layer, line, 900_000, [product], 1, 1);
      const sum = add(`${layer}/BiasAdd${at}`, "BiasAdd", layer, line, 120_000, [product]);
      last = add(`${layer}/Relu${at}`, "Relu", layer, line, 240_000, [sum]);
    }
    for (const layer of [...LAYERS].reverse()) {
      last = add(`gradients/${layer}/MatMul_grad${at}`, "MatMul", layer, "train.py:31", 2_100_000, [last, `${layer}/Relu${at}`]);
      add(`gradients/${layer}/BiasAddGrad${at}`, "BiasAddGrad", layer, "train.py:31", 300_000, [last], 2);
      add(`optimizer/${layer}/ApplyAdam${at}`, "ApplyAdam", layer, "train.py:32", 420_000, [last]);
    }
    add(`metrics/send${at}`, "_Send", "", "train.py:36", 380_000, [last], 2, 2);
  }
  return ops;
}

const COLUMNS = 1024;

export class Double implements Source {
  readonly place = "view";
  readonly follows = true;
  private readonly ops: DoubleOp[];
  private readonly end: number;
  private readonly lengths: number[];

  constructor(repeat = 1, private readonly runs = 200) {
    this.ops = opsOf(repeat);
    this.end = this.ops.reduce((most, op) => Math.max(most, op.start + op.ns), 0);
    const random = numbers(3);
    this.lengths = Array.from({ length: runs }, (_, run) => Math.round(this.end * (run === 0 ? 9 : run === 42 ? 4.1 : 0.95 + 0.12 * random())));
  }

  async get(key: string): Promise<unknown> {
    const [name = "", query = ""] = key.split("?");
    const asked = new URLSearchParams(query);
    const answers: Record<string, (asked: URLSearchParams) => unknown> = {
      session: () => this.session(), changes: () => ({ generation: 1, state: "ok", message: "", growing: false }), runs: () => this.runColumns(),
      overview: () => this.overview(), ops: (one) => this.table(one.get("by") ?? "type"), icicle: (one) => this.icicle(one.get("by") ?? "time"), timeline: () => this.timeline(),
      tile: (one) => this.tile(Number(one.get("level") ?? 0), Number(one.get("index") ?? 0)), range: (one) => this.range(Number(one.get("from")), Number(one.get("to"))),
      edges: (one) => this.edges(Number(one.get("row"))), graph: (one) => this.graph((one.get("scope") ?? "").replace(/^\/$/, "")), memory: () => this.memory(), compare: () => this.compare(), cluster: () => this.cluster(),
      op: (one) => this.op(one), layer: (one) => this.layer(one.get("name") ?? ""), index: () => this.index(), source: (one) => ({ file: "model.py", line: 13, available: true, lines: source(one.get("line") ?? "") }),
    };
    const answer = answers[name];
    if (!answer) throw new Failure(`There is no resource ${name}.`, "", 404);
    return answer(asked);
  }

  private session() {
    return {
      stepscope: "0.1.0", place: "view", generation: 1, state: "ok", message: "", growing: false, title: "train.py", paths: ["logs"], engine: "tensorflow 2.21", summary: `${this.runs} runs of train_step`,
      base_ns: "0", typical: { run: 117, why: "the run of median length" }, pages: { overview: null, timeline: null, ops: null, graph: null, memory: null, compare: null, cluster: null },
      sets: [{ id: "0", label: "logs/before", runs: 20 }, { id: "1", label: "logs/after", runs: 20 }], sources: [], damage: [], perfetto: false,
    };
  }

  private runColumns() {
    const rows = Array.from({ length: this.runs }, (_, run) => run);
    return {
      number: rows, name: rows.map((run) => `run_${String(run).padStart(6, "0")}`), kind: strings(rows.map(() => "train_step")), engine: strings(rows.map(() => "tensorflow")), status: strings(rows.map((run) => (run === 150 ? "DEADLINE_EXCEEDED" : "OK"))),
      ok: rows.map((run) => (run === 150 ? 0 : 1)), ops: rows.map(() => this.ops.length), ns: this.lengths, started_ns: rows.map((run) => run * this.end), peak_bytes: rows.map(() => 2e8), losses: rows.map(() => 0), overhead_ns: rows.map(() => 2e5), set: rows.map(() => 0),
    };
  }

  private sums(keyOf: (op: DoubleOp) => string) {
    const sums = new Map<string, { key: string; calls: number; ns: number; max: number; bytes: number; op: string }>();
    for (const op of this.ops) {
      const key = keyOf(op);
      const sum = sums.get(key) ?? { key, calls: 0, ns: 0, max: 0, bytes: 0, op: op.type };
      sums.set(key, { ...sum, calls: sum.calls + 1, ns: sum.ns + op.ns, max: Math.max(sum.max, op.ns), bytes: sum.bytes + op.bytes });
    }
    return [...sums.values()].sort((one, other) => other.ns - one.ns);
  }

  private total(): number {
    return this.ops.reduce((sum, op) => sum + op.ns, 0);
  }

  private overview() {
    const rows = this.sums((op) => op.layer || "(none)").slice(0, 10);
    const total = this.total();
    const parts = ["computing", "threads", "transfers", "input", "python_ops"].map((key, place) => ({ key, label: ["computing", "waiting for threads", "transfers", "waiting for input", "Python"][place], category: [0, 1, 2, 3, 4][place] ?? 0 }));
    const sum = (category: number): number => this.ops.filter((op) => op.category === category && op.lane === 0).reduce((all, op) => all + op.ns, 0);
    const bar = parts.map(({ key, label, category }) => ({ key, label: label ?? "", ns: sum(category) })).concat([{ key: "nothing", label: "nothing", ns: 0 }]);
    const known = bar.reduce((all, part) => all + part.ns, 0);
    (bar[bar.length - 1] as { ns: number }).ns = this.end - known;
    return {
      failure: null,
      verdict: [{ key: "train_step", figure_ns: this.end, runs: this.runs, figure: "27.1 ms a step", cause: "25% is Python inside of ops: `input/map` (input.py:6)", limits: [] }],
      spent: "9.12 s: 3.10 s imports, 5.40 s in 200 runs, 620 ms between them", advice: [{ what: "run `map` on several threads (`num_parallel_calls`)", gain_ns: 3_600_000, error_ns: 200_000, check: "stepscope advise logs" }],
      bar: { per: "step of train_step", ns: this.end, parts: bar.map((part) => ({ ...part, share: part.ns / this.end })) },
      steps: { rows: [{ key: "train_step", engine: "tensorflow", runs: this.runs, median_ns: this.end, p90_ns: this.end * 1.05, p99_ns: this.end * 4, first_ns: this.lengths[0], lengths_ns: this.lengths, numbers: this.lengths.map((_, run) => run), outliers: [{ run: 42, ns: this.lengths[42], over_ns: 8e7, causes: [{ kind: "waited", op: "input/map", type: "PyFunc", line: "input.py:6", more_ns: 66e6 }] }] }] },
      slowest: [...this.ops].sort((one, other) => other.ns - one.ns).slice(0, 10).map((op) => ({ key: op.name, type: op.type, self_ns: op.ns, share: op.ns / total, calls: 1 })),
      top: { by: "layer", rows: rows.map((row) => ({ key: row.key, self_ns: row.ns, share: row.ns / total, calls: row.calls, line: row.key === "(none)" ? "" : `model.py:${12 + LAYERS.indexOf(row.key)}` })) },
      memory: { device: "CPU:0", peak_bytes: this.peak().bytes, peak_ns: this.peak().ns, run: 117, at: "gradients/dense_2/MatMul_grad", owners: [{ label: "activations", bytes: 3e7, share: 0.61 }, { label: "variables", bytes: 1e7, share: 0.3 }], curve: this.curve(), estimated: false },
      losses: [{ what: "ops inside XLA clusters", count: 3, runs: 200, reason: "XLA compiles them into one: `stepscope coverage` names them" }], complete: false, cost: { ns: 340_000, fraction: 0.012, text: "340 µs (1.2%)" },
    };
  }

  private table(by: string) {
    const rows = this.sums((op) => (by === "name" ? op.name : by === "layer" ? op.layer || "(none)" : by === "line" ? op.line : by === "device" ? "CPU:0" : by === "thread" ? `thread ${op.lane}` : by === "file" ? (op.line.split(":")[0] ?? "") : op.type));
    const total = this.total();
    const random = numbers(11);
    const columns = 60;
    return {
      by, runs: this.runs, calls: this.ops.length * this.runs, total_ns: total, self_ns: total, covered_ns: total,
      rows: {
        key: rows.map((row) => row.key), op: rows.map((row) => row.op), device: rows.map(() => "/job:localhost/replica:0/task:0/device:CPU:0"), calls: rows.map((row) => row.calls), self_ns: rows.map((row) => row.ns), total_ns: rows.map((row) => row.ns),
        share: rows.map((row) => row.ns / total), mean_ns: rows.map((row) => row.ns / row.calls), max_ns: rows.map((row) => row.max), p50_ns: rows.map((row) => row.ns / row.calls), p99_ns: rows.map((row) => row.max), bytes: rows.map((row) => row.bytes),
      },
      rest: null, spark: { runs: Array.from({ length: columns }, (_, run) => run), ns: rows.flatMap((row) => Array.from({ length: columns }, (_, run) => row.ns * (run === 20 ? 3 : 0.9 + 0.2 * random()))) },
    };
  }

  private icicle(by: string) {
    const names: string[] = [];
    const parent: number[] = [];
    const value: number[] = [];
    const place = new Map<string, number>();
    const node = (path: string): number => {
      const found = place.get(path);
      if (found !== undefined) return found;
      const cut = path.lastIndexOf("/");
      const above = cut < 0 ? -1 : node(path.slice(0, cut));
      place.set(path, names.length);
      names.push(path);
      parent.push(above);
      value.push(0);
      return names.length - 1;
    };
    for (const op of this.ops) {
      for (let at = node(op.name); at >= 0; at = parent[at] ?? -1) value[at] = (value[at] ?? 0) + (by === "bytes" ? op.bytes : op.ns);
    }
    return { names, parent, value, own: value, calls: value.map(() => 1), type: strings(names.map(() => "MatMul")), unit: by === "bytes" ? "bytes" : "ns" };
  }

  private timeline() {
    const types = [...new Set(this.ops.map((op) => op.type))];
    const path = this.ops.map((op, row) => ({ op, row })).filter(({ op }) => op.lane === 0);
    return {
      run: 117, name: "run_000117", kind: "train_step", base_ns: "0", from_ns: 0, to_ns: this.end, ops: this.ops.length,
      lanes: [0, 1, 2].map((id) => ({ id, device: "CPU:0", name: id ? `thread ${id}` : "main thread", group: "CPU:0", rows: 1, kind: "ops", busy_ns: 0 })),
      types, layers: ["", ...LAYERS], categories: CATEGORIES,
      marks: { label: ["step 117"], from_ns: [0], to_ns: [this.end], kind: strings(["step"]), run: [117] },
      path: { length_ns: this.end, by_kind: {}, lane: path.map(() => 0), row: path.map(({ row }) => row), from_ns: path.map(({ op }) => op.start), to_ns: path.map(({ op }) => op.start + op.ns), kind: strings(path.map(() => "executing")), name: strings(path.map(({ op }) => op.name)) },
      memory: { device: "CPU:0", ...this.curve(), peak_bytes: this.peak().bytes, peak_ns: this.peak().ns },
      overview: this.busy(types), transfers: null, tile_columns: COLUMNS, max_level: 14, resource: "tile",
    };
  }

  private busy(types: readonly string[]) {
    const columns = 512;
    const busy = new Array<number>(columns).fill(0);
    const type = new Array<number>(columns).fill(0);
    const wide = this.end / columns;
    for (const op of this.ops) {
      for (let at = Math.floor(op.start / wide); at <= Math.min(columns - 1, Math.floor((op.start + op.ns) / wide)); at += 1) {
        busy[at] = (busy[at] ?? 0) + (Math.min(op.start + op.ns, (at + 1) * wide) - Math.max(op.start, at * wide)) / wide;
        type[at] = types.indexOf(op.type);
      }
    }
    return { columns, busy, type };
  }

  private tile(level: number, index: number) {
    const from = (this.end * index) / 2 ** level;
    const to = (this.end * (index + 1)) / 2 ** level;
    const column = (to - from) / COLUMNS;
    const types = [...new Set(this.ops.map((op) => op.type))];
    const inside = this.ops.map((op, row) => ({ op, row })).filter(({ op }) => op.start < to && op.start + op.ns > from);
    const wide = inside.filter(({ op }) => op.ns >= column || inside.length < 4000);
    const names = [...new Set(wide.map(({ op }) => op.name))];
    const places = new Map(names.map((name, place) => [name, place]));
    const layers = ["", ...LAYERS];
    const density = new Map<string, { lane: number; column: number; busy: number; type: number; category: number; count: number }>();
    if (wide.length < inside.length) {
      for (const { op } of inside) {
        if (op.ns >= column) continue;
        const at = Math.max(0, Math.min(COLUMNS - 1, Math.floor((op.start - from) / column)));
        const cell = density.get(`${op.lane}:${at}`) ?? { lane: op.lane, column: at, busy: 0, type: types.indexOf(op.type), category: op.category, count: 0 };
        density.set(`${op.lane}:${at}`, { ...cell, busy: Math.min(255, cell.busy + (op.ns / column) * 255), count: cell.count + 1 });
      }
    }
    const cells = [...density.values()];
    return {
      level, index, from_ns: from, to_ns: to, whole: wide.length === inside.length,
      boxes: {
        lane: wide.map(({ op }) => op.lane), depth: wide.map(() => 0), start: wide.map(({ op }) => Math.max(0, op.start - from)), ns: wide.map(({ op }) => Math.min(op.start + op.ns, to) - Math.max(op.start, from)), type: wide.map(({ op }) => types.indexOf(op.type)),
        category: wide.map(({ op }) => op.category), layer: wide.map(({ op }) => layers.indexOf(op.layer)), node: wide.map(({ op }) => places.get(op.name) ?? 0), row: wide.map(({ row }) => row), cut: wide.map(({ op }) => (op.start < from ? 1 : 0) + (op.start + op.ns > to ? 2 : 0)),
      },
      names,
      density: { lane: cells.map((cell) => cell.lane), column: cells.map((cell) => cell.column), busy: cells.map((cell) => cell.busy), type: cells.map((cell) => cell.type), category: cells.map((cell) => cell.category), count: cells.map((cell) => cell.count) },
    };
  }

  private range(from: number, to: number) {
    const inside = this.ops.filter((op) => op.start < to && op.start + op.ns > from);
    const total = inside.reduce((sum, op) => sum + op.ns, 0) || 1;
    const types = [...new Set(inside.map((op) => op.type))];
    return { ns: to - from, ops: inside.length, by: "type", rows: types.map((key) => { const of = inside.filter((op) => op.type === key); const ns = of.reduce((sum, op) => sum + op.ns, 0); return { key, calls: of.length, self_ns: ns, total_ns: ns, share: ns / total }; }).sort((one, other) => other.self_ns - one.self_ns) };
  }

  private edge(name: string) {
    const row = this.ops.findIndex((op) => op.name === name);
    const op = this.ops[row];
    return op ? [{ row, name, lane: op.lane, depth: 0, from_ns: op.start, to_ns: op.start + op.ns }] : [];
  }

  private edges(row: number) {
    const op = this.ops[row];
    return { inputs: (op?.inputs ?? []).flatMap((name) => this.edge(name)), outputs: this.ops.filter((one) => op && one.inputs.includes(op.name)).flatMap((one) => this.edge(one.name)) };
  }

  private graph(scope: string) {
    const prefix = scope ? `${scope}/` : "";
    const nodeOf = (name: string): string | null => {
      if (!name.startsWith(prefix)) return null;
      const rest = name.slice(prefix.length);
      return prefix + (rest.split("/")[0] ?? rest);
    };
    const ids: string[] = [];
    const inside = new Map<string, DoubleOp[]>();
    for (const op of this.ops) {
      const id = nodeOf(op.name);
      if (id === null) continue;
      if (!inside.has(id)) ids.push(id);
      inside.set(id, [...(inside.get(id) ?? []), op]);
    }
    const links = new Map<string, { from: number; to: number; count: number }>();
    for (const op of this.ops) {
      for (const input of op.inputs) {
        const [from, to] = [ids.indexOf(nodeOf(input) ?? ""), ids.indexOf(nodeOf(op.name) ?? "")];
        if (from < 0 || to < 0 || from === to) continue;
        const link = links.get(`${from}>${to}`) ?? { from, to, count: 0 };
        links.set(`${from}>${to}`, { ...link, count: link.count + 1 });
      }
    }
    const of = (id: string): DoubleOp[] => inside.get(id) ?? [];
    const isOp = (id: string): boolean => of(id).length === 1 && of(id)[0]?.name === id;
    const edges = [...links.values()];
    return {
      scope,
      nodes: {
        id: ids, label: ids.map((id) => id.slice(prefix.length)), kind: strings(ids.map((id) => (isOp(id) ? "op" : "scope"))), type: strings(ids.map((id) => of(id)[0]?.type ?? "")), ops: ids.map((id) => of(id).length), self_ns: ids.map((id) => of(id).reduce((sum, op) => sum + op.ns, 0)),
        bytes: ids.map((id) => of(id).reduce((sum, op) => sum + op.bytes, 0)), device: strings(ids.map(() => "CPU:0")), state: strings(ids.map((id) => (id.includes("metrics") ? "pruned" : id.includes("Relu") ? "fused" : "measured"))), detail: ids.map(() => ""), path: ids.map((id) => Number(of(id).some((op) => op.lane === 0))), line: strings(ids.map((id) => of(id)[0]?.line ?? "")),
      },
      edges: { from: edges.map((edge) => edge.from), to: edges.map((edge) => edge.to), count: edges.map((edge) => edge.count), bytes: edges.map(() => 4096), control: edges.map(() => 0) },
      states: { measured: "timed", fused: "part of another op", pruned: "not needed" },
    };
  }

  private tensors() {
    // Asked for at every moment of the curve: made once.
    this.known ??= this.madeTensors();
    return this.known;
  }

  private known: ReturnType<Double["madeTensors"]> | undefined;

  private madeTensors() {
    const last = new Map<string, number>();
    for (const op of this.ops) for (const input of op.inputs) last.set(input, Math.max(last.get(input) ?? 0, op.start + op.ns));
    return [
      ...LAYERS.map((layer, place) => ({ name: `${layer}/kernel`, kind: "variable", bytes: 4_000_000 + place * 1_000_000, from: 0, to: Number.POSITIVE_INFINITY, layer })),
      ...this.ops.map((op) => ({ name: op.name, kind: op.category === 3 || op.category === 4 ? "feed" : "temporary", bytes: op.bytes, from: op.start, to: last.get(op.name) ?? op.start + op.ns, layer: op.layer })),
    ];
  }

  private curve() {
    const moments = [...new Set(this.tensors().flatMap((tensor) => [tensor.from, tensor.to]))].filter(Number.isFinite).sort((one, other) => one - other);
    const change = new Map<number, number>();
    for (const { from, to, bytes } of this.tensors()) {
      if (!(from < to)) continue;
      change.set(from, (change.get(from) ?? 0) + bytes);
      change.set(to, (change.get(to) ?? 0) - bytes);
    }
    let live = 0;
    const bytes = moments.map((at) => (live += change.get(at) ?? 0));
    return { ns: moments, bytes };
  }

  private live(at: number) {
    return this.tensors().filter((tensor) => tensor.from <= at && at < tensor.to);
  }

  private peak() {
    const { ns, bytes } = this.curve();
    const most = Math.max(...bytes);
    return { bytes: most, ns: ns[bytes.indexOf(most)] ?? 0 };
  }

  private memory() {
    const tensors = this.tensors();
    const curve = this.curve();
    const keys = ["variable", "temporary", "feed"];
    return {
      devices: ["CPU:0"], device: "CPU:0", run: 117, by: "kind", peak_bytes: this.peak().bytes, peak_ns: this.peak().ns, estimated: false, limit: null, persistent_at_peak: 0, curve,
      series: { key: keys, bytes: keys.flatMap((key) => curve.ns.map((at) => this.live(at).filter((tensor) => tensor.kind === key).reduce((sum, tensor) => sum + tensor.bytes, 0))) },
      tensors: {
        name: strings(tensors.map((tensor) => tensor.name)), kind: strings(tensors.map((tensor) => tensor.kind)), bytes: tensors.map((tensor) => tensor.bytes), from_ns: tensors.map((tensor) => tensor.from), to_ns: tensors.map((tensor) => (Number.isFinite(tensor.to) ? tensor.to : 1e18)), shape: strings(tensors.map(() => "[256, 512]")), dtype: strings(tensors.map(() => "float32")),
        line: strings(tensors.map(() => "model.py:14")), address: tensors.reduce<number[]>((places, _tensor, row) => [...places, (places[row - 1] ?? 4096) + (tensors[row - 1]?.bytes ?? 0) + (row % 5 ? 0 : 2_000_000)], []), layer: strings(tensors.map((tensor) => tensor.layer)),
      },
      complete: true, rest: null, rows: {}, oom: null, marks: [{ ns: this.peak().ns, label: "peak", kind: "peak" }],
    };
  }

  private compare() {
    const rows = this.sums((op) => op.name).slice(0, 200);
    const factor = (name: string): number => (name.includes("dense_1") ? 1.6 : name.includes("conv_2") ? 0.7 : 1.01);
    const tree = this.icicle("time");
    return {
      rows: {
        name: rows.map((row) => row.key), op: rows.map((row) => row.op), metric: rows.map(() => "time"), base: rows.map((row) => row.ns), new: rows.map((row) => row.ns * factor(row.key)), change: rows.map((row) => factor(row.key) - 1), low: rows.map((row) => factor(row.key) - 1.02),
        high: rows.map((row) => factor(row.key) - 0.98), effect: rows.map(() => 1), p: rows.map((row) => (factor(row.key) === 1.01 ? 0.6 : 0.0004)), significant: rows.map((row) => Number(factor(row.key) !== 1.01)),
      },
      icicle: { names: tree.names, parent: tree.parent, base: tree.value, new: tree.value.map((value, node) => value * factor(tree.names[node] ?? "")) },
      sentences: ["time, all ops: 27.1 ms -> 29.0 ms, +7.0% (+5.1% … +8.9%)", "20 runs against 20"], owners: [{ key: "variables", base_bytes: 3e7, new_bytes: 3e7 }, { key: "activations", base_bytes: 8e7, new_bytes: 1.3e8 }], notes: [],
    };
  }

  private cluster() {
    const random = numbers(5);
    const tasks = Array.from({ length: 48 }, (_, task) => `worker:${task}`);
    const steps = 80;
    const late = (task: number): number => (task === 17 ? 1.7 : 1);
    return {
      tasks: {
        name: tasks, ops: tasks.map(() => 41_000), busy_ns: tasks.map((_, task) => 2.1e9 * late(task)), idle_ns: tasks.map((_, task) => 4e8 / late(task)), cost_ns: tasks.map((_, task) => (task === 17 ? 3.1e8 : 1e6 * random())), steps_late: tasks.map((_, task) => (task === 17 ? 66 : 0)), offset_ns: tasks.map(() => (random() - 0.5) * 4e6),
        drift_ppm: tasks.map(() => 3), error_ns: tasks.map((_, task) => (task === 9 ? Number.NaN : 2e5 + random() * 4e5)), found: strings(tasks.map(() => "messages")), ended: strings(tasks.map((_, task) => (task === 30 ? "no" : "yes"))),
      },
      steps, step_ns: Array.from({ length: steps }, () => 3e7), task_step_ns: tasks.flatMap((_, task) => Array.from({ length: steps }, () => 1.6e7 * late(task) * (0.9 + 0.2 * random()))),
      links: { key: ["worker:17 -> ps:0"], producer: ["worker:17"], consumer: ["ps:0"], source: ["worker:17"], target: ["ps:0"], calls: [80], bytes: [4e8], idle_ns: [3e8], waiting_ns: [3.1e8], moving_ns: [2e7], max_ns: [9e6] },
      stragglers: [{ run: "run_000001", step: 12, kind: "task", name: "worker:17", cost_ns: 3.1e8, waited_ns: 9e9, waiting: 47, length_ns: 3e7 }], absent: [], collectives: 0, transfers: 80, unmatched: 0, bytes: 4e8,
    };
  }

  private op(asked: URLSearchParams) {
    const row = asked.has("row") ? Number(asked.get("row")) : this.ops.findIndex((op) => op.name === asked.get("name"));
    const op = this.ops[row];
    if (!op) throw new Failure(`No op of this run is called ${asked.get("name")}.`, "", 404);
    const random = numbers(row + 1);
    const times = Array.from({ length: 60 }, () => op.ns * (0.9 + 0.3 * random()));
    return {
      name: op.name, type: op.type, row, depth: 0, own_ns: op.ns, device: "CPU:0", thread: op.lane ? `thread ${op.lane}` : "main", lane: op.lane, layer: op.layer, phase: "", line: op.line, scheduled_ns: op.start, start_ns: op.start, end_ns: op.start + op.ns, ns: op.ns, self_ns: op.ns, waited_ns: 12_000, category: CATEGORIES[op.category], label: op.name,
      inputs: op.inputs.map((name) => ({ name, type: "MatMul", shape: "[256, 512]", dtype: "float32", bytes: 524288 })), outputs: [{ slot: 0, shape: "[256, 512]", dtype: "float32", bytes: op.bytes }], output_bytes: op.bytes, executions: 1, times: { runs: times.map((_, run) => run), ns: times, median_ns: op.ns, p90_ns: op.ns * 1.1, max_ns: op.ns * 1.2 },
      memory: { total_bytes: 8192, peak_bytes: 4096, live_bytes: 0 }, placement: { requested: "", assigned: "CPU:0", reason: "the only device", differs: false }, coverage: { state: "measured", detail: "", reason: "measured", meaning: "it ran under its own name and has a time" }, on_path: op.lane === 0, share: op.ns / this.total(),
      source: { file: op.line.split(":")[0], line: 13, lines: source(op.line) },
    };
  }

  private layer(name: string) {
    const ops = this.ops.filter((op) => op.layer === name || op.name.startsWith(`${name}/`)).sort((one, other) => other.ns - one.ns);
    const ns = ops.reduce((sum, op) => sum + op.ns, 0);
    return { name, calls: ops.length, self_ns: ns, share: ns / this.total(), forward_ns: ns * 0.4, backward_ns: ns * 0.5, optimizer_ns: ns * 0.1, bytes: 1e7, line: ops[0]?.line ?? "", ops: ops.slice(0, 50).map((op) => ({ name: op.name, type: op.type, self_ns: op.ns })), times: null };
  }

  private index() {
    const ops = [...this.ops].sort((one, other) => other.ns - one.ns).slice(0, 5000);
    return { name: ops.map((op) => op.name), type: strings(ops.map((op) => op.type)), line: strings(ops.map((op) => op.line)), layer: strings(ops.map((op) => op.layer)), self_ns: ops.map((op) => op.ns), complete: true };
  }
}

function source(line: string): [number, string][] {
  const at = Number(line.split(":")[1] ?? 13);
  return [[at - 1, "x = self.normalize(x)"], [at, "x = tf.nn.relu(tf.matmul(x, self.kernel) + self.bias)"], [at + 1, "return x"]];
}
