// How large a box is, for what is drawn to its size.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

export function Measured({ children, class: kind = "", height }: { children: (width: number, height: number) => ComponentChildren; class?: string; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<[number, number]>([0, 0]);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const look = (): void => {
      const next: [number, number] = [Math.floor(element.clientWidth), Math.floor(element.clientHeight)];
      setSize((now) => (now[0] === next[0] && now[1] === next[1] ? now : next));
    };
    const observer = new ResizeObserver(look);
    observer.observe(element);
    look();
    return () => observer.disconnect();
  }, []);
  return <div ref={box} class={kind} style={height ? { height: `${height}px` } : {}}>{size[0] > 0 && children(size[0], size[1])}</div>;
}
