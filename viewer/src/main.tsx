import "./style.css";
import { render } from "preact";

const place = document.getElementById("page");
if (place) {
  place.textContent = "";
  render(<main>stepscope</main>, place);
}
