// A chart by uPlot that follows its box and its theme.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Theme } from "../colour.ts";

interface Props {
  readonly label: string;
  readonly width: number;
  readonly height: number;
  readonly theme: Theme;
  /** Whatever of the options changes makes a new chart; it is compared by identity. */
  readonly options: Omit<uPlot.Options, "width" | "height">;
  readonly data: uPlot.AlignedData;
  readonly onPoint?: (index: number) => void;
}

export function Chart({ label, width, height, theme, options, data, onPoint }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const pointed = useRef(onPoint);
  pointed.current = onPoint;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot({ ...options, width, height }, data, element);
    chart.current = made;
    const click = (): void => {
      const { idx } = made.cursor;
      if (idx !== null && idx !== undefined) pointed.current?.(idx);
    };
    made.over.addEventListener("click", click);
    return () => {
      made.destroy();
      chart.current = null;
    };
  }, [options, data, theme]);
  useEffect(() => chart.current?.setSize({ width, height }), [width, height]);
  return <div class="chart" ref={box} role="img" aria-label={label} />;
}

/** Steps of an axis of time: 1, 2 and 5 of each power of ten, from a nanosecond to a day. */
const INCREMENTS = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();

/** Axes in the theme's colours. */
export function axes(theme: Theme, x: (ns: number, step: number, largest?: number) => string, y: (value: number) => string, ySize = 64): uPlot.Axis[] {
  const common = { stroke: theme.quiet, grid: { stroke: theme.faint, width: 1 }, ticks: { stroke: theme.line, width: 1, size: 4 }, font: theme.font, gap: 4 };
  return [
    { ...common, values: (_chart, splits) => splits.map((value) => x(value, (splits[1] ?? 1) - (splits[0] ?? 0), splits.at(-1))), size: 28, space: 90, incrs: INCREMENTS },
    { ...common, values: (_chart, splits) => splits.map(y), size: ySize, space: 36 },
  ];
}
