// One of a few: a row of buttons that reads as a sentence.
export function Choice<T extends string>({ label, of, value, onChoose }: { label: string; of: readonly (readonly [T, string])[]; value: T; onChoose: (value: T) => void }) {
  return (
    <span class="choice" role="radiogroup" aria-label={label}>
      <span class="quiet">{label}</span>
      {of.map(([id, words]) => (
        <button key={id} type="button" role="radio" aria-checked={id === value} class={id === value ? "on" : ""} onClick={() => onChoose(id)}>{words}</button>
      ))}
    </span>
  );
}
