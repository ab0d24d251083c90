// What a page is: what it needs, and a pure function of (state, data).
import type { FunctionComponent } from "preact";
import type { Theme } from "./colour.ts";
import type { Asked, Request, Store } from "./data/store.ts";
import type { Session } from "./data/types.ts";
import type { PageId, Selection, State } from "./state.ts";

/** What pages may do: change the state, and nothing else. */
export interface Act {
  /** Changes what is shown. `quietly` makes no new entry in the browser's history. */
  set(change: Partial<State>, quietly?: boolean): void;
  select(selection: Selection | null): void;
}

export interface PageProps {
  readonly state: State;
  readonly session: Session;
  readonly data: Readonly<Record<string, Asked<unknown>>>;
  readonly act: Act;
  readonly theme: Theme;
  readonly store: Store;
}

export interface Page {
  readonly id: PageId;
  readonly label: string;
  readonly needs: (state: State, session: Session) => Readonly<Record<string, Request>>;
  readonly View: FunctionComponent<PageProps>;
}

/** The number of the run that is shown, as a parameter: the typical one has none. */
export const runParam = (state: State): string | undefined => (state.run === "" || state.run === "all" ? undefined : state.run);
