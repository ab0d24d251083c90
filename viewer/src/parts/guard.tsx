// A part of the page that cannot be drawn leaves the others as they are, and says so.
import type { ComponentChildren } from "preact";
import { useErrorBoundary } from "preact/hooks";
import { shortened } from "../format.ts";
import { Empty } from "./await.tsx";

/** Give it a key that changes with what is drawn: then the next thing is tried. */
export function Guard({ what, children }: { what: string; children: ComponentChildren }) {
  const [error] = useErrorBoundary((found: unknown) => console.error(found));
  if (!error) return <>{children}</>;
  return <Empty what={`${what} cannot be drawn: ${shortened(String(error), 200)}`} todo="This is a defect of Stepscope; the other pages go on." tone="failed" />;
}
