// SPDX-License-Identifier: Apache-2.0
// Browsers start no workers from file: URLs. In a copy of the site that is opened from a folder, a hidden frame runs the
// search instead. The name of the class is what the search looks for in the window around it.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = [];

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.appendChild(this.#frame);
      const inside = this.#frame.contentWindow;
      // What the search sends goes to this page, not to the frame itself.
      inside.postMessage = (data) => this.#tell(this, data);
      inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.#load(one)));
      this.#load(url).then(() => {
        const sent = this.#waiting;
        this.#waiting = null;
        sent.forEach((data) => this.#tell(inside, data));
      });
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#tell(this.#frame.contentWindow, data);
    }

    terminate() {
      this.#frame.remove();
    }

    #tell(target, data) {
      const event = new MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (target === this) this.onmessage?.(event);
    }

    #load(url) {
      const script = this.#frame.contentDocument.createElement("script");
      script.src = new URL(url, location).href;
      return new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
        this.#frame.contentDocument.body.appendChild(script);
      });
    }
  };
  window.Worker = window.IFrameWorker;
}
