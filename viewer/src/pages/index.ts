// The pages, in the order of their tabs.
import type { Page } from "../page.ts";
import { cluster } from "./cluster.tsx";
import { compare } from "./compare.tsx";
import { graph } from "./graph.tsx";
import { memory } from "./memory.tsx";
import { ops } from "./ops.tsx";
import { overview } from "./overview.tsx";
import { timeline } from "./timeline.tsx";

export const pages: readonly Page[] = [overview, timeline, ops, graph, memory, compare, cluster];
