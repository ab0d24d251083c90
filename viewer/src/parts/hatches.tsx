// The hatches as SVG patterns, once in the document, and boxes that show a meaning's colour and hatch.
import { type Theme, categoryColour, meaning } from "../colour.ts";
import { HATCHES } from "../draw/hatch.ts";

export function HatchPatterns({ theme }: { theme: Theme }) {
  return (
    <svg width="0" height="0" aria-hidden="true" class="patterns">
      <defs>
        {Object.entries(HATCHES).map(([name, lines]) => (
          <pattern key={name} id={`hatch-${name}`} width="8" height="8" patternUnits="userSpaceOnUse">
            <path d={lines} fill="none" stroke={theme.dark ? "rgba(0,0,0,0.45)" : "rgba(255,255,255,0.6)"} stroke-width="1.3" />
          </pattern>
        ))}
      </defs>
    </svg>
  );
}

/** A small square of a meaning, for legends. */
export function Swatch({ category, colour, theme }: { category?: string; colour?: string; theme: Theme }) {
  const hatch = category ? meaning(category).hatch : "";
  return (
    <svg class="swatch" width="12" height="12" aria-hidden="true">
      <rect width="12" height="12" rx="2" fill={category ? categoryColour(category, theme) : (colour ?? theme.line)} />
      {hatch && <rect width="12" height="12" rx="2" fill={`url(#hatch-${hatch})`} />}
    </svg>
  );
}
