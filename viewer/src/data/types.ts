// The values that pages draw, as the server describes them (docs/viewer.md).
// Times are nanoseconds after the run's beginning; a column is one row per element.
import type { Column, Strings } from "./frame.ts";

/** Sentences that stand at the foot of whatever shows the value. */
export interface Said {
  readonly folded?: readonly string[];
  readonly notes?: readonly string[];
}

export interface Session extends Said {
  readonly stepscope: string;
  readonly generation: number;
  readonly state: "ok" | "empty" | "unreadable" | "gone";
  readonly message: string;
  readonly growing: boolean;
  readonly title: string;
  readonly engine: string;
  readonly summary: string;
  readonly typical: { readonly run: number; readonly why: string } | null;
  /** What is shown first where a run is shown: a number, or `step`, the longest step of a cluster. */
  readonly timeline_run?: number | "step" | null;
  readonly pages: Readonly<Record<string, string | null>>;
  readonly sets: readonly { readonly id: string; readonly label: string; readonly runs: number }[];
  readonly sources: readonly { readonly id: string; readonly label: string; readonly runs: number }[];
  readonly damage: readonly string[];
  readonly folded_resources?: Readonly<Record<string, string>>;
  readonly perfetto: boolean;
}

export interface Runs extends Said {
  readonly number: Column;
  readonly name: readonly string[];
  readonly kind: Strings;
  readonly status: Strings;
  readonly ok: Column;
  readonly ops: Column;
  readonly ns: Column;
  readonly peak_bytes: Column;
}

export interface Changes {
  readonly generation: number;
  readonly state: Session["state"];
  readonly message: string;
  readonly growing: boolean;
}

export interface BarPart {
  readonly key: string;
  readonly label: string;
  readonly ns: number;
  readonly share: number;
}

export interface StepRow {
  readonly key: string;
  readonly runs: number;
  readonly median_ns: number;
  readonly p90_ns: number;
  readonly p99_ns?: number;
  readonly first_ns?: number | null;
  readonly lengths_ns: Column;
  readonly numbers?: Column;
  readonly outliers?: readonly {
    readonly run: number;
    readonly ns: number;
    readonly over_ns: number;
    readonly causes?: readonly { readonly kind: string; readonly op: string; readonly type: string; readonly line: string; readonly more_ns: number }[];
  }[];
  readonly [field: string]: unknown;
}

export interface Overview extends Said {
  readonly failure: null | {
    readonly run: number;
    readonly name: string;
    readonly code: string;
    readonly message: string;
    /** `node` is what the graph calls the op, which a function's error names without the call around it. */
    readonly in_flight: readonly { readonly name: string; readonly node?: string; readonly line?: string; readonly outcome: string; readonly waited_ns: number | null }[];
    readonly failed_runs: number;
    readonly oom: null | {
      readonly request_bytes: number | null;
      readonly op: string;
      readonly device: string;
      readonly limit: number | null;
      readonly live: number | null;
      readonly advice: string | readonly string[];
    };
  };
  readonly verdict: readonly {
    readonly key: string;
    readonly figure_ns: number;
    readonly runs: number;
    readonly figure: string;
    readonly cause: string;
  }[];
  /** What the program waits for between its steps, and what grows from step to step. */
  readonly besides?: readonly string[];
  readonly spent: string;
  readonly advice: readonly {
    readonly what: string;
    readonly gain_ns: number | null;
    readonly error_ns: number | null;
    readonly check: string;
  }[];
  readonly bar: { readonly per: string; readonly ns: number; readonly parts: readonly BarPart[] } | null;
  readonly steps: { readonly rows: readonly StepRow[] };
  /** The ops with most time of their own; empty of very large runs. */
  readonly slowest: readonly { readonly key: string; readonly type: string; readonly self_ns: number; readonly share: number; readonly calls: number }[];
  readonly top: {
    readonly by: "layer" | "type";
    readonly rows: readonly {
      readonly key: string;
      readonly self_ns: number;
      readonly share: number;
      readonly calls: number;
      readonly line: string;
    }[];
  };
  readonly memory: null | {
    readonly device: string;
    readonly peak_bytes: number;
    readonly peak_ns: number;
    readonly run: number;
    readonly at: string;
    readonly owners: readonly { readonly label: string; readonly bytes: number; readonly share: number }[];
    readonly curve: { readonly ns: Column; readonly bytes: Column };
    readonly estimated: boolean;
  };
  readonly losses: readonly { readonly what: string; readonly count: number; readonly runs: number; readonly reason: string }[];
  readonly complete: boolean;
  readonly cost: { readonly ns: number; readonly fraction: number; readonly text: string } | null;
}

export interface Ops extends Said {
  readonly by: string;
  readonly runs: number;
  readonly calls: number;
  readonly self_ns: number;
  readonly total_ns: number;
  readonly rows: Readonly<Record<string, Column | readonly string[]>> & { readonly key: readonly string[] };
  readonly rest?: { readonly rows: number; readonly calls: number; readonly self_ns: number; readonly total_ns: number; readonly bytes: number } | null;
  readonly spark?: { readonly runs: Column; readonly ns: Column } | null;
}

export interface Tree extends Said {
  readonly names: readonly string[];
  readonly parent: Column;
  readonly value: Column;
  readonly own: Column;
  readonly calls: Column;
  readonly type: Strings;
  readonly unit: "ns" | "bytes";
}

export interface Lane {
  readonly id: number;
  readonly device: string;
  readonly name: string;
  readonly group: string;
  readonly rows: number;
  readonly kind: "ops" | "annotations" | "transfers";
  readonly busy_ns: number;
}

export interface CriticalPath {
  readonly length_ns: number;
  readonly by_kind: Readonly<Record<string, number>>;
  readonly lane: Column;
  readonly row: Column;
  readonly from_ns: Column;
  readonly to_ns: Column;
  readonly kind: Strings;
  readonly name: Strings;
}

export interface TimelineFacts extends Said {
  readonly run: number | "all";
  readonly name: string;
  readonly from_ns: number;
  readonly to_ns: number;
  readonly ops: number;
  readonly lanes: readonly Lane[];
  readonly types: readonly string[];
  readonly layers: readonly string[];
  readonly categories: readonly string[];
  readonly marks: { readonly label: readonly string[]; readonly from_ns: Column; readonly to_ns: Column; readonly kind: Strings; readonly run: Column };
  readonly path: CriticalPath | null;
  readonly memory: null | { readonly device: string; readonly ns: Column; readonly bytes: Column; readonly peak_bytes: number; readonly peak_ns: number };
  readonly overview: { readonly columns: number; readonly busy: Column; readonly type: Column };
  readonly transfers?: { readonly from_lane: Column; readonly to_lane: Column; readonly from_ns: Column; readonly to_ns: Column; readonly bytes: Column; readonly name: Strings } | null;
  readonly tile_columns: number;
  readonly max_level: number;
}

export interface Tile {
  readonly level: number;
  readonly index: number;
  readonly from_ns: number;
  readonly to_ns: number;
  readonly whole: boolean;
  readonly boxes: {
    readonly lane: Column;
    readonly depth: Column;
    readonly start: Column;
    readonly ns: Column;
    readonly type: Column;
    readonly category: Column;
    readonly layer: Column;
    readonly node: Column;
    readonly row: Column;
    readonly cut: Column;
  };
  readonly names: readonly string[];
  readonly density: {
    readonly lane: Column;
    readonly column: Column;
    readonly busy: Column;
    readonly type: Column;
    readonly category: Column;
    readonly count: Column;
  };
}

export interface RangeSum extends Said {
  readonly ns: number;
  readonly ops: number;
  readonly rows: readonly { readonly key: string; readonly calls: number; readonly self_ns: number; readonly total_ns: number; readonly share: number }[];
}

export interface Edge {
  readonly row: number;
  readonly name: string;
  readonly lane: number;
  readonly depth: number;
  readonly from_ns: number;
  readonly to_ns: number;
}

export interface Edges {
  readonly inputs: readonly Edge[];
  readonly outputs: readonly Edge[];
}

export interface GraphNodes {
  readonly id: readonly string[];
  readonly label: readonly string[];
  readonly kind: Strings;
  readonly type: Strings;
  readonly ops: Column;
  readonly self_ns: Column;
  readonly bytes: Column;
  readonly device: Strings;
  readonly state: Strings;
  readonly detail: readonly string[];
  readonly path: Column;
  readonly line: Strings;
}

export interface GraphFacts extends Said {
  /** What is shown: the scope that was asked for, or that at which the graph opens. */
  readonly scope: string;
  readonly nodes: GraphNodes;
  readonly edges: { readonly from: Column; readonly to: Column; readonly count: Column; readonly bytes: Column; readonly control: Column };
  readonly states: Readonly<Record<string, string>>;
  /** Neighbours outside of the scope, numbered after `nodes` in `edges`. */
  readonly outer?: Partial<GraphNodes> | null;
}

export interface Tensors {
  readonly name: Strings;
  readonly kind: Strings;
  readonly bytes: Column;
  readonly from_ns: Column;
  readonly to_ns: Column;
  readonly shape: Strings;
  readonly dtype: Strings;
  readonly line: Strings;
  readonly address?: Column | null;
  readonly layer: Strings;
}

export interface MemoryFacts extends Said {
  readonly devices: readonly string[];
  readonly device: string;
  readonly run: number;
  readonly by: string;
  readonly peak_bytes: number;
  readonly peak_ns: number;
  readonly estimated: boolean;
  readonly limit: number | null;
  readonly curve: { readonly ns: Column; readonly bytes: Column };
  readonly series: { readonly key: readonly string[]; readonly bytes: Column };
  readonly tensors: Tensors;
  readonly complete: boolean;
  readonly rest: Column | null;
  readonly oom: Readonly<Record<string, unknown>> | null;
  readonly marks: readonly { readonly ns: number; readonly label: string; readonly kind: "peak" | "oom" }[];
}

export interface Instant extends Said {
  readonly ns: number;
  readonly bytes: number;
  readonly rows: Tensors;
  readonly rest_bytes: number;
}

export interface Comparison extends Said {
  readonly rows: Readonly<Record<string, Column | readonly string[]>> & { readonly name: readonly string[] };
  readonly appeared?: readonly unknown[];
  readonly gone?: readonly unknown[];
  readonly icicle: { readonly names: readonly string[]; readonly parent: Column; readonly base: Column; readonly new: Column };
  readonly sentences: readonly string[];
  readonly owners: readonly { readonly key: string; readonly base_bytes: number; readonly new_bytes: number }[];
}

export interface Cluster extends Said {
  readonly slowest?: null | { readonly task: string; readonly ns: number; readonly usual_ns: number };
  readonly step_name?: readonly string[];
  readonly tasks: {
    readonly name: readonly string[];
    readonly ops: Column;
    readonly busy_ns: Column;
    readonly idle_ns: Column;
    readonly cost_ns: Column;
    readonly steps_late: Column;
    readonly offset_ns: Column;
    readonly drift_ppm: Column;
    readonly error_ns: Column;
    readonly found: Strings;
    readonly ended: Strings;
  };
  readonly steps: number;
  readonly step_ns: Column;
  readonly task_step_ns: Column;
  readonly links: Readonly<Record<string, Column | readonly string[] | Strings>>;
  readonly stragglers: readonly Readonly<Record<string, unknown>>[];
  readonly absent: readonly { readonly task: string; readonly what: string }[];
  readonly bytes?: number;
}

/** An op of a run: all that is known of it, and of its execution; one that did not run has none. */
export interface Op extends Said, Partial<Execution> {
  readonly name: string;
  readonly type: string;
  readonly row: number;
  readonly layer?: string;
  readonly line: string;
  readonly label?: string;
  readonly self_ns: number;
  readonly inputs: readonly { readonly name: string; readonly type: string; readonly shape: string; readonly dtype: string; readonly bytes: number | null }[];
  readonly outputs: readonly { readonly slot: number; readonly shape: string; readonly dtype: string; readonly bytes: number | null }[];
  readonly output_bytes: number | null;
  readonly executions: number;
  readonly times: OpTimes | null;
  /** What the kernel used beside its outputs. */
  readonly memory: null | { readonly total_bytes: number; readonly peak_bytes: number; readonly live_bytes: number };
  readonly placement: null | { readonly requested: string; readonly assigned: string; readonly reason: string; readonly differs: boolean };
  readonly coverage: null | { readonly state: string; readonly detail: string; readonly reason: string; readonly meaning: string };
  readonly on_path: boolean;
  readonly share: number;
  readonly source: SourceLines | null;
}

export interface Execution {
  readonly device: string;
  readonly thread: string;
  readonly lane: number;
  readonly depth: number;
  readonly category: string;
  readonly scheduled_ns: number | null;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly ns: number;
  readonly own_ns: number;
  readonly waited_ns: number | null;
}

export interface OpTimes {
  readonly runs: Column;
  readonly ns: Column;
  readonly median_ns: number | null;
  readonly p90_ns: number | null;
  readonly max_ns: number | null;
}

export interface SourceLines {
  readonly file: string;
  readonly line: number;
  readonly lines: readonly (readonly [number, string])[];
}

export interface Layer extends Said {
  readonly name: string;
  readonly calls: number;
  readonly self_ns: number;
  readonly share: number;
  readonly forward_ns: number;
  readonly backward_ns: number;
  readonly optimizer_ns: number;
  readonly bytes?: number;
  readonly line: string;
  readonly ops: readonly { readonly name: string; readonly type: string; readonly self_ns: number }[];
  readonly times?: { readonly runs: Column; readonly ns: Column } | null;
}

export interface Index extends Said {
  readonly name: readonly string[];
  readonly type: Strings;
  readonly line: Strings;
  readonly layer: Strings;
  readonly self_ns: Column;
  readonly complete: boolean;
}
