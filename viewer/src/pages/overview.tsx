// Overview: did it end well, what limits it, which part of my code is that. In sentences, without a click.
import { BAR_MEANING, type Theme, categoryColour, meaning, namedColour } from "../colour.ts";
import type { BarPart, Overview, StepRow } from "../data/types.ts";
import { number, share, shortened, size, spent, time, whole } from "../format.ts";
import type { Act, Page, PageProps } from "../page.ts";
import { Await, Notes, withCode } from "../parts/await.tsx";
import { Swatch } from "../parts/hatches.tsx";
import { Measured } from "../parts/measured.tsx";
import { Name } from "../parts/name.tsx";
import { Bar } from "../parts/spark.tsx";

function View({ data, act, theme, session }: PageProps) {
  return (
    <Await of={data.overview as never}>
      {(value: Overview) => (
        <div class="overview-grid">
          {value.failure && <Failed of={value.failure} act={act} />}
          <Verdict of={value} />
          {value.bar && value.bar.ns > 0 && <TimeBar of={value.bar} theme={theme} />}
          {value.steps.rows.filter((row) => row.lengths_ns.length > 1).slice(0, 3).map((row) => <Steps key={row.key} row={row} act={act} theme={theme} />)}
          <div class="columns">
            <div class="times-of">
              <Top of={value} act={act} theme={theme} />
              <Slowest of={value} act={act} theme={theme} />
            </div>
            <div class="beside">
            {value.memory ? <Memory of={value.memory} act={act} theme={theme} /> : session.pages.memory ? <section><h2>memory</h2><p class="quiet">{withCode(session.pages.memory)}</p></section> : null}
            <Missing of={value} />
            </div>
          </div>
          <Notes of={value} />
        </div>
      )}
    </Await>
  );
}

function Failed({ of, act }: { of: NonNullable<Overview["failure"]>; act: Act }) {
  const advice = of.oom ? (typeof of.oom.advice === "string" ? [of.oom.advice] : of.oom.advice) : [];
  return (
    <section class="failure" role="alert">
      <p class="headline"><span aria-hidden="true">✕ </span>{of.code}</p>
      {lines(of.message).map((line, place) => <p key={place} class={place ? "quiet" : ""}>{shortened(line, 300)}</p>)}
      {of.oom && (
        <p>
          <button type="button" class="link" onClick={() => act.select({ kind: "op", name: of.oom?.op ?? "" })}><Name of={of.oom.op} /></button> asked for <b>{size(of.oom.request_bytes)}</b> on {shortened(of.oom.device, 60)}
          {of.oom.live !== null && <>, where <b>{size(of.oom.live)}</b> were held</>}{of.oom.limit !== null && <> of {size(of.oom.limit)}</>}.
        </p>
      )}
      {advice.map((sentence, place) => <p key={place}>→ {withCode(shortened(sentence, 400))}</p>)}
      {of.in_flight.length > 0 && (
        <p>In flight: {of.in_flight.slice(0, 6).map((op, place) => (
          <span key={op.name}>{place > 0 && ", "}<button type="button" class="link" onClick={() => act.select({ kind: "op", name: op.node ?? op.name })}><Name of={op.name} /></button>{op.line && <> at <button type="button" class="link" onClick={() => act.select({ kind: "line", name: op.line ?? "" })}>{shortened(op.line, 60)}</button></>}{op.outcome && <span class="quiet"> ({op.outcome.replace(/_/g, " ")}{op.waited_ns ? `, ${time(op.waited_ns)}` : ""})</span>}</span>
        ))}{of.in_flight.length > 6 && `, ${number(of.in_flight.length - 6, "more")}`}</p>
      )}
      <p class="quiet">
        <button type="button" class="link" onClick={() => act.set({ page: "timeline", run: String(of.run), view: null })}>Show run #{of.run}</button>{of.oom && <> · <button type="button" class="link" onClick={() => act.set({ page: "memory", run: String(of.run), at: null })}>who held the memory</button></>} {of.name !== `#${of.run}` && shortened(of.name, 60)}{of.failed_runs > 1 && `; ${number(of.failed_runs, "run")} failed in all`}
      </p>
    </section>
  );
}

/** The lines of a message, without those that the sentences below it say better. */
export const lines = (message: string): string[] => message.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, 4);

/** A sentence of the verdict has the place in the user's code in backticks and after `at`: it can be clicked. */
function Verdict({ of }: { of: Overview }) {
  return (
    <section class="verdict" aria-label="What limits it">
      <div>
        {of.verdict.slice(0, 3).map((one, place) => (
          <div key={one.key} class={place ? "further" : "first"}>
            <p class="headline">{one.figure || time(one.figure_ns)}<span class="quiet small-figure">{[one.runs > 1 ? ` median of ${whole(one.runs)}` : "", of.verdict.length > 1 || of.failure ? ` ${shortened(one.key, 60)}` : ""].filter(Boolean).join(" ·")}</span></p>
            <p class="cause">{withCode(shortened(one.cause, 400))}</p>
          </div>
        ))}
        {of.besides?.map((said) => <p key={said} class="cause">{withCode(shortened(said, 400))}</p>)}
        {of.verdict.length === 0 && <p class="headline quiet">No run here says how long it took.</p>}
      </div>
      <ul class="state" aria-label="State">
        <li class={of.failure ? "bad" : "good"}>{of.failure ? "✕ failed" : "✓ OK"}</li>
        <li class={of.complete ? "good" : "warn"}>{of.complete ? "✓ complete" : `! ${of.losses.length} not measured`}</li>
        {of.cost?.text && <li title="What recording added to the runs themselves; starting and reporting come once">recording cost {of.cost.text}{/%/.test(of.cost.text) && " of runs"}</li>}
      </ul>
      {(of.advice.length > 0 || of.spent) && (
        <div class="advices">
          {of.advice.slice(0, 3).map((one, place) => (
            <p key={place} class="advice"><span aria-hidden="true">→ </span>{withCode(shortened(one.what, 300))}{one.check && <code class="check">{one.check}</code>}</p>
          ))}
          {of.spent && <p class="quiet">{shortened(of.spent, 400)}</p>}
        </div>
      )}
    </section>
  );
}

function TimeBar({ of, theme }: { of: NonNullable<Overview["bar"]>; theme: Theme }) {
  const parts = of.parts.filter((part) => part.ns > 0);
  const colour = (part: BarPart): string => {
    const category = BAR_MEANING[part.key] ?? "overhead";
    return category ? categoryColour(category, theme) : theme.faint;
  };
  return (
    <section aria-label={`Where the time of a ${of.per} goes`}>
      <Measured class="timebar">
        {(width) => {
          let x = 0;
          return (
            <svg width={width} height="30" role="img" aria-label={parts.map((part) => `${part.label} ${time(part.ns)}`).join(", ")}>
              {parts.map((part) => {
                const wide = (part.ns / of.ns) * width;
                const category = BAR_MEANING[part.key] ?? "overhead";
                const hatch = category ? meaning(category).hatch : "";
                const box = { x, y: 0, width: Math.max(wide - 1.5, 0.8), height: 30 };
                x += wide;
                return <g key={part.key}><rect {...box} fill={colour(part)}><title>{`${part.label}: ${time(part.ns)} (${share(part.share)})`}</title></rect>{hatch && <rect {...box} fill={`url(#hatch-${hatch})`} pointer-events="none" />}</g>;
              })}
            </svg>
          );
        }}
      </Measured>
      <ul class="legend figures">
        {parts.map((part) => {
          const category = BAR_MEANING[part.key] ?? "overhead";
          return <li key={part.key} data-part={part.key}>{category ? <Swatch category={category} theme={theme} /> : <Swatch colour={theme.faint} theme={theme} />} {part.label} <b class="figure">{time(part.ns)}</b> <span class="quiet">{share(part.share)}</span></li>;
        })}
        <li class="quiet">of an average {of.per}, {time(of.ns)}</li>
      </ul>
    </section>
  );
}

export interface StepBar {
  readonly x: number;
  readonly width: number;
  readonly height: number;
  readonly out: boolean;
  readonly over: boolean;
}

/** Bars of step lengths; those beyond three medians end at the top, so that one slow step does not flatten all. */
export function stepBars(row: StepRow, width: number, height: number): StepBar[] {
  const count = row.lengths_ns.length;
  let most = 0;
  for (let place = 0; place < count; place += 1) most = Math.max(most, row.lengths_ns[place] || 0);
  const ceiling = Math.min(most, Math.max(row.median_ns * 3, row.p90_ns * 1.2)) || 1;
  const out = new Set((row.outliers ?? []).map((one) => one.run));
  return Array.from({ length: count }, (_, place) => {
    const ns = row.lengths_ns[place] || 0;
    const run = row.numbers?.[place] ?? place;
    return { x: (place / count) * width, width: Math.max(0.8, width / count - (width / count > 3 ? 1 : 0)), height: Math.max(1, Math.min(1, ns / ceiling) * height), out: out.has(run) || ns > ceiling, over: ns > ceiling };
  });
}

function Steps({ row, act, theme }: { row: StepRow; act: Act; theme: Theme }) {
  const run = (place: number): number => row.numbers?.[place] ?? place;
  const outliers = (row.outliers ?? []).slice(0, 3);
  return (
    <section class="steps" aria-label={`Length of each ${row.key}`}>
      <h2>{number(row.runs, "step")} <span class="quiet">{shortened(row.key, 80)}</span></h2>
      <Measured class="stepbars">
        {(width) => (
          <svg width={width} height="52" role="img" aria-label={`${row.runs} lengths, median ${time(row.median_ns)}`}>
            {stepBars(row, width, 46).map((bar, place) => (
              <g key={place} class="pick" onClick={() => act.set({ page: "timeline", run: String(run(place)), view: null })}>
                <rect x={bar.x} y="0" width={Math.max(bar.width, 1)} height="52" fill="transparent"><title>{`#${run(place)}: ${time(row.lengths_ns[place])}`}</title></rect>
                <rect x={bar.x} y={50 - bar.height} width={bar.width} height={bar.height} fill={bar.out ? theme.quiet : theme.dark ? "#5b6672" : "#b4bcc6"} pointer-events="none" />
                {bar.over && <path d={`M${bar.x + bar.width / 2 - 3} 6 l3 -5 l3 5z`} fill={theme.quiet} pointer-events="none" />}
              </g>
            ))}
          </svg>
        )}
      </Measured>
      <p class="figures">
        median <b class="figure">{time(row.median_ns)}</b> p90 <b class="figure">{time(row.p90_ns)}</b>{row.first_ns ? <> first <b class="figure">{time(row.first_ns)}</b></> : null}
        {outliers.map((one) => (
          <button key={one.run} type="button" class="link outlier" onClick={() => act.set({ page: "timeline", run: String(one.run), view: null })}>
            #{one.run} was {time(one.ns)}{one.causes?.[0] && `: ${cause(one.causes[0])}`}
          </button>
        ))}
      </p>
    </section>
  );
}

function cause(one: { readonly kind: string; readonly op: string; readonly type: string; readonly more_ns: number }): string {
  return `${shortened(one.op || one.type || one.kind, 40)} ${one.kind === "waited" ? "waited" : "took"} ${time(one.more_ns)} longer`;
}

function Top({ of, act, theme }: { of: Overview; act: Act; theme: Theme }) {
  const kind = of.top.by === "layer" ? "layer" : "type";
  const most = of.top.rows.reduce((high, row) => Math.max(high, row.share), 0) || 1;
  return (
    <section aria-label="Where the time goes">
      <h2>where the time goes <span class="quiet">by {kind === "layer" ? "layer" : "op type"}</span> <button type="button" class="link more" onClick={() => act.set({ page: "ops", by: kind })}>all ›</button></h2>
      <table class="short"><tbody>
        {of.top.rows.map((row) => (
          <tr key={row.key} onClick={() => act.select({ kind, name: row.key })} class="pick">
            <td class="name-cell"><button type="button" class="link"><Name of={row.key} most={36} /></button></td>
            <td class="bar-cell"><Bar share={row.share / most} colour={namedColour(row.key, theme)} /></td>
            <td class="number">{share(row.share)}</td>
            <td class="number">{spent(row.self_ns)}</td>
            <td class="quiet line-cell">{row.line && !row.line.endsWith(row.key) && <button type="button" class="link quiet" onClick={(event) => { event.stopPropagation(); act.select({ kind: "line", name: row.line }); }}>{shortened(row.line, 36)}</button>}</td>
          </tr>
        ))}
      </tbody></table>
      {of.top.rows.length === 0 && <p class="quiet">No op was recorded.</p>}
    </section>
  );
}

function Slowest({ of, act, theme }: { of: Overview; act: Act; theme: Theme }) {
  if (!of.slowest?.length) return null;
  const most = of.slowest.reduce((high, row) => Math.max(high, row.share), 0) || 1;
  return (
    <section aria-label="Slowest ops">
      <h2>slowest ops <button type="button" class="link more" onClick={() => act.set({ page: "ops", by: "name" })}>all ›</button></h2>
      <table class="short"><tbody>
        {of.slowest.map((row) => (
          <tr key={row.key} onClick={() => act.select({ kind: "op", name: row.key })} class="pick">
            <td class="name-cell"><button type="button" class="link"><Name of={row.key} most={36} /></button></td>
            <td class="bar-cell"><Bar share={row.share / most} colour={namedColour(row.type, theme)} /></td>
            <td class="number">{share(row.share)}</td>
            <td class="number">{spent(row.self_ns)}</td>
            <td class="quiet line-cell">{shortened(row.type, 24)}</td>
          </tr>
        ))}
      </tbody></table>
    </section>
  );
}

/** The outline of a step function in a box. */
export function stepPath(ns: ArrayLike<number>, bytes: ArrayLike<number>, width: number, height: number, most: number): string {
  if (!ns.length) return "";
  const [from, to] = [ns[0] ?? 0, ns[ns.length - 1] ?? 1];
  const x = (at: number): string => (((at - from) / (to - from || 1)) * width).toFixed(1);
  const y = (value: number): string => (height - (value / (most || 1)) * (height - 2)).toFixed(1);
  let path = `M0 ${height}`;
  for (let place = 0; place < ns.length; place += 1) path += `H${x(ns[place] ?? 0)}V${y(bytes[place] ?? 0)}`;
  return `${path}H${width}V${height}Z`;
}

function Memory({ of, act, theme }: { of: NonNullable<Overview["memory"]>; act: Act; theme: Theme }) {
  return (
    <section aria-label="Memory">
      <h2>memory <button type="button" class="link more" onClick={() => act.set({ page: "memory", run: String(of.run), at: of.peak_ns })}>at the peak ›</button></h2>
      <p>peak {of.estimated && "about "}<b class="figure">{size(of.peak_bytes)}</b>{of.at && <> at <button type="button" class="link" onClick={() => act.select({ kind: "op", name: of.at })}><Name of={of.at} most={48} /></button></>} <span class="quiet">{shortened(of.device, 40)}</span></p>
      <Measured class="memory-curve">{(width) => <svg width={width} height="56" role="img" aria-label="Live bytes over the run"><path d={stepPath(of.curve.ns, of.curve.bytes, width, 56, of.peak_bytes)} fill={theme.dark ? "#55487d" : "#c9bde4"} /></svg>}</Measured>
      <ul class="legend">{of.owners.slice(0, 6).map((owner) => <li key={owner.label}>{shortened(owner.label, 40)} <b class="figure">{share(owner.share)}</b></li>)}</ul>
    </section>
  );
}

function Missing({ of }: { of: Overview }) {
  if (!of.losses.length) return null;
  return (
    <section aria-label="What is missing">
      <h2>not measured</h2>
      <ul class="losses">{of.losses.slice(0, 8).map((loss, place) => (
        <li key={place}><details><summary>{shortened(loss.what, 80)}{loss.count > 0 && ` (${whole(loss.count)})`}<span class="why"> why ›</span></summary><p class="quiet">{withCode(shortened(loss.reason, 400))}</p></details></li>
      ))}</ul>
      {of.losses.length > 8 && <p class="quiet">and {number(of.losses.length - 8, "more kind")}; <code>stepscope info</code> has all</p>}
    </section>
  );
}

export const overview: Page = { id: "overview", label: "Overview", needs: () => ({ overview: { name: "overview" } }), View };
