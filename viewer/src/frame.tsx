// The frame around all pages: heading, tabs, search, run, theme, panel; and who turns keys into changes.
import { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { DARK, LIGHT, type Theme } from "./colour.ts";
import type { Asked, Store } from "./data/store.ts";
import type { Session } from "./data/types.ts";
import { follow } from "./follow.ts";
import { shortened } from "./format.ts";
import { type Act, type PageProps, runParam } from "./page.ts";
import { pages } from "./pages/index.ts";
import { Panel } from "./panel.tsx";
import { Await, Empty, withCode } from "./parts/await.tsx";
import { Guard } from "./parts/guard.tsx";
import { HatchPatterns } from "./parts/hatches.tsx";
import { Keys } from "./parts/keys.tsx";
import { OpenInPerfetto } from "./parts/perfetto.tsx";
import { RunChooser } from "./parts/run_chooser.tsx";
import { Search } from "./parts/search.tsx";
import { type State, fromFragment, toFragment } from "./state.ts";

const KEPT = "stepscope-theme";

/** Light or dark: what was chosen here, else what the system has. */
function useTheme(): [Theme, () => void] {
  const system = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
  const [chosen, choose] = useState<string | null>(() => {
    try {
      return localStorage.getItem(KEPT);
    } catch {
      return null;
    }
  });
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    system.addEventListener("change", again);
    return () => system.removeEventListener("change", again);
  }, [system]);
  const dark = chosen ? chosen === "dark" : system.matches;
  useEffect(() => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }, [dark]);
  const toggle = useCallback(() => {
    const next = dark ? "light" : "dark";
    choose(next);
    try {
      localStorage.setItem(KEPT, next);
    } catch {
      // A page from a file may not be allowed to keep anything: then it is for this visit.
    }
  }, [dark]);
  return [dark ? DARK : LIGHT, toggle];
}

/** Have the URL say the state; a page inside of a notebook has no URL of its own. */
function inUrl(how: "pushState" | "replaceState", state: State): void {
  if (location.href.startsWith("about:")) return;
  history[how](null, "", toFragment(state));
}

/** The state, and the one way to change it; the URL always has it. */
function useUrlState(): [State, Act] {
  const [state, setState] = useState<State>(() => fromFragment(location.hash || (document.documentElement.dataset.start ?? "")));
  const now = useRef(state);
  useEffect(() => {
    const read = (): void => {
      now.current = fromFragment(location.hash);
      setState(now.current);
    };
    addEventListener("popstate", read);
    addEventListener("hashchange", read);
    return () => {
      removeEventListener("popstate", read);
      removeEventListener("hashchange", read);
    };
  }, []);
  const act = useMemo<Act>(() => {
    let pending = 0;
    const set = (change: Partial<State>, quietly = false): void => {
      const next = { ...now.current, ...change };
      now.current = next;
      setState(next);
      if (!quietly) {
        inUrl("pushState", next);
        return;
      }
      // Browsers allow some hundred changes of the URL in half a minute; panning makes more.
      clearTimeout(pending);
      pending = setTimeout(() => inUrl("replaceState", now.current), 250) as unknown as number;
    };
    return { set, select: (select) => set({ select }) };
  }, []);
  return [state, act];
}

export function App({ store }: { store: Store }) {
  const [state, act] = useUrlState();
  const [theme, toggleTheme] = useTheme();
  const [, again] = useReducer((count: number) => count + 1, 0);
  // Before the first frame: what a report holds may be there sooner, and nobody would draw it.
  useLayoutEffect(() => store.listen(() => again(0)), [store]);
  store.always = state.source ? { source: state.source } : {};
  const asked = store.ask<Session>({ name: "session" });
  const session = asked.value;
  const [said, say] = useState("");
  const generation = useRef(0);
  generation.current = session?.generation ?? 0;
  useEffect(() => follow(store, () => generation.current, say), [store]);
  if (session) {
    store.folded = session.folded_resources ?? {};
    store.typical = session.typical?.run;
    document.title = `${shortened(session.title, 60) || "runs"} · stepscope`;
  }
  return (
    <>
      <HatchPatterns theme={theme} />
      {session ? <Frame {...{ store, state, act, theme, toggleTheme, session, said }} />
        : <main class="alone"><p class="wordmark">stepscope</p><Await of={asked}>{() => null}</Await></main>}
    </>
  );
}

interface FrameProps {
  readonly store: Store;
  readonly state: State;
  readonly act: Act;
  readonly theme: Theme;
  readonly toggleTheme: () => void;
  readonly session: Session;
  readonly said: string;
}

function Frame({ store, state, act, theme, toggleTheme, session, said }: FrameProps) {
  const [help, setHelp] = useState(false);
  const latest = useRef(state);
  latest.current = state;
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
      if (event.key === "/") document.getElementById("search")?.focus();
      else if (event.key === "?") setHelp(true);
      else if (event.key === "t") toggleTheme();
      else if (event.key === "Escape") act.set(latest.current.range ? { range: null } : { select: null });
      else if (/^[1-7]$/.test(event.key)) {
        const page = pages[Number(event.key) - 1];
        if (page) act.set({ page: page.id });
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [act, toggleTheme]);

  // Of a cluster the longest step of all workers is shown first, by one clock.
  const shown = state.run === "" && session.timeline_run === "step" ? { ...state, run: "step" } : state;
  const page = pages.find((one) => one.id === state.page) ?? pages[0];
  if (!page) return null;
  const absent = session.pages[page.id] ?? null;
  const data: Record<string, Asked<unknown>> = {};
  if (absent === null && session.state !== "empty") {
    for (const [name, request] of Object.entries(page.needs(shown, session))) data[name] = store.ask(request);
  }
  const props: PageProps = { state: shown, session, data, act, theme, store };
  const trouble = said || (session.state === "ok" ? "" : session.message);
  return (
    <div class={`frame ${state.select ? "with-panel" : ""}`}>
      <header class="head">
        <div class="row">
          <h1><span class="wordmark">stepscope</span><span class="what" title={shortened(session.title, 400)}>{[session.title, session.engine, session.summary].filter(Boolean).map((one, place) => <span key={place}>{shortened(one, 80)}</span>)}{session.growing && <span class="growing">recording</span>}</span></h1>
          {session.sources.length > 0 && (
            <label class="sources"><span class="quiet">source</span>{" "}
              <select value={state.source || session.sources[0]?.id} onChange={(event) => act.set({ source: event.currentTarget.value, run: "", select: null, view: null, range: null, at: null })}>
                {session.sources.map((source) => <option key={source.id} value={source.id}>{shortened(source.label, 80)}</option>)}
              </select>
            </label>
          )}
          <Search store={store} run={runParam(shown)} onChoose={act.select} />
        </div>
        <div class="row">
          <nav class="tabs" aria-label="Pages">
            {pages.map((one) => (
              <a key={one.id} href={toFragment({ ...state, page: one.id })} aria-current={one.id === page.id ? "page" : undefined} class={session.pages[one.id] ? "nothing" : ""}
                onClick={(event) => { if (event.ctrlKey || event.metaKey || event.shiftKey) return; event.preventDefault(); act.set({ page: one.id }); }}>{one.label}</a>
            ))}
          </nav>
          <div class="tools">
            <RunChooser store={store} session={session} run={shown.run} onChoose={(run) => act.set({ run, view: null, range: null, at: null, select: state.select ? { kind: state.select.kind, name: state.select.name } : null })} />
            {session.perfetto && <OpenInPerfetto store={store} run={runParam(shown)} title={session.title} />}
            <button type="button" class="plain" aria-label={theme.dark ? "Light colours" : "Dark colours"} title={`${theme.dark ? "Light" : "Dark"} (T)`} onClick={toggleTheme}>{theme.dark ? "☀" : "☾"}</button>
            <button type="button" class="plain" aria-label="Keys" title="Keys (?)" onClick={() => setHelp(true)}>?</button>
          </div>
        </div>
      </header>
      {trouble && <p class="banner" role="alert">{withCode(trouble)}</p>}
      <main class={`page ${page.id}`} aria-label={page.label}>
        {session.state === "empty" ? <Empty what={session.message || "There is no run here yet."} todo="This page waits for runs, and shows them as they come." />
          : absent !== null ? <Empty what={absent} /> : <Guard key={`${page.id} ${shown.run} ${session.generation}`} what="This page"><page.View {...props} /></Guard>}
      </main>
      {state.select && <Panel key={`${state.select.kind} ${state.select.name} ${shown.run}`} {...props} />}
      <footer class="foot">
        {[...session.damage, ...(session.folded ?? []), ...(session.notes ?? [])].map((sentence, place) => <span key={place}>{shortened(sentence, 400)}</span>)}
      </footer>
      {help && <Keys onClose={() => setHelp(false)} />}
    </div>
  );
}
