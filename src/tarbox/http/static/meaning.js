// What the server understands, while a question is typed: a drawing and a sentence.

import { drawing, isSparql } from "./api.js";
import { byId } from "./dom.js";
import { picture } from "./picture.js";

const PAUSE = 250;

/** The figure under the box. `failed(problem, text)` is called for a text that the server does not understand. */
export class Meaning {
  #figure = byId("meaning");
  #timer = 0;
  #pending = null;
  #failed;

  constructor({ failed }) {
    this.#failed = failed;
  }

  /** Draws a text that is being typed, once the typing pauses; the last good drawing stays, dimmed. */
  follow(text) {
    clearTimeout(this.#timer);
    this.#pending?.abort();
    if (!text.trim() || isSparql(text)) {
      this.#figure.hidden = true;
      return;
    }
    this.#figure.classList.add("stale");
    this.#timer = setTimeout(async () => {
      const problem = await this.#draw(text);
      if (problem) this.#failed(problem, text);
    }, PAUSE);
  }

  /** Draws a text that has been asked. What is wrong with it, the answer says. */
  async show(text) {
    clearTimeout(this.#timer);
    const problem = isSparql(text) || (await this.#draw(text));
    if (problem) this.#figure.hidden = true;
  }

  async #draw(text) {
    this.#pending?.abort();
    this.#pending = new AbortController();
    try {
      const { svg, english } = await drawing(text, this.#pending.signal);
      const drawn = picture(svg);
      byId("drawing").replaceChildren(...(drawn ? [drawn] : []));
      byId("english").textContent = english;
      this.#figure.hidden = false;
      this.#figure.classList.remove("stale");
    } catch (problem) {
      if (problem.name === "AbortError") return null;
      this.#figure.classList.add("stale");
      return problem;
    }
    return null;
  }
}
