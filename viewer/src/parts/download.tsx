// Everything shown can be taken along: rows as CSV or JSON, pictures as PNG or SVG.
import { useRef, useState } from "preact/hooks";

export interface Rows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number | null)[])[];
}

export function csv({ columns, rows }: Rows): string {
  const cell = (value: string | number | null): string => {
    const shown = value === null || (typeof value === "number" && Number.isNaN(value)) ? "" : String(value);
    return /[",\r\n]/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export const json = ({ columns, rows }: Rows): string =>
  JSON.stringify(
    rows.map((row) => Object.fromEntries(columns.map((column, place) => [column, row[place] ?? null]))),
    (_key, value: unknown) => (typeof value === "number" && !Number.isFinite(value) ? null : value),
    1,
  );

export function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function svgOf(element: SVGElement): Blob {
  const copy = element.cloneNode(true) as SVGElement;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

interface Props {
  /** The files' name, without ending. */
  readonly name: string;
  readonly rows?: () => Rows;
  /** Finds the picture: a canvas becomes PNG, an SVG stays one. */
  readonly picture?: () => Element | null | undefined;
}

/** Small buttons: copy, CSV, JSON, picture. */
export function Download({ name, rows, picture }: Props) {
  const [said, say] = useState("");
  const timer = useRef(0);
  const announce = (what: string): void => {
    say(what);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => say(""), 1600) as unknown as number;
  };
  const copy = async (): Promise<void> => {
    if (!rows) return;
    try {
      await navigator.clipboard.writeText(csv(rows()).replaceAll("\r\n", "\n"));
      announce("copied");
    } catch {
      announce("the browser does not allow copying here");
    }
  };
  const draw = (): void => {
    const found = picture?.();
    if (found instanceof HTMLCanvasElement) found.toBlob((blob) => blob && save(`${name}.png`, blob));
    else if (found instanceof SVGElement) save(`${name}.svg`, svgOf(found));
  };
  return (
    <span class="downloads">
      <span role="status" class="quiet">{said}</span>
      {rows && <button type="button" class="small" title="Copy the rows" onClick={() => void copy()}>Copy</button>}
      {rows && <button type="button" class="small" title="Download the rows as CSV" onClick={() => save(`${name}.csv`, new Blob([csv(rows())], { type: "text/csv" }))}>CSV</button>}
      {rows && <button type="button" class="small" title="Download the rows as JSON" onClick={() => save(`${name}.json`, new Blob([json(rows())], { type: "application/json" }))}>JSON</button>}
      {picture && <button type="button" class="small" title="Download the picture" onClick={draw}>Picture</button>}
    </span>
  );
}
