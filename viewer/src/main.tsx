import "./style.css";
import { render } from "preact";
import { sourceHere } from "./data/source.ts";
import { Store } from "./data/store.ts";
import { App } from "./frame.tsx";

const place = document.getElementById("page");
if (place) {
  const store = new Store(sourceHere(document));
  place.textContent = "";
  render(<App store={store} />, place);
}
