"use strict";
// The page is whole without this: it adds filters, folding of everything at once, and printing
// of what is folded. It reads text only and never makes markup of it.

const PAUSE_MS = 120; // of typing, before a long list is searched

const closest = (item) => item.parentElement.closest("li");
const fold = (item) => item.querySelector(":scope > details");

class Filter {
  constructor(tools) {
    this.list = document.getElementById(tools.dataset.for);
    this.words = tools.querySelector("[type=search]");
    this.trouble = tools.querySelector("[type=checkbox]"); // none where all is trouble
    this.status = tools.querySelector("[role=status]");
    this.entries = null;
    this.before = null;
    this.timer = 0;
    this.words.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.apply(), PAUSE_MS);
    });
    this.trouble?.addEventListener("change", () => this.apply());
    for (const button of tools.querySelectorAll("[data-fold]")) {
      button.addEventListener("click", () => this.foldAll(button.dataset.fold === "open"));
    }
    tools.hidden = false;
  }

  foldAll(open) {
    for (const details of this.list.querySelectorAll("li > details")) {
      details.open = open;
    }
  }

  // Read once, when first needed: each line with its own text, parents first.
  read() {
    this.entries = [];
    const known = new Map();
    for (const item of this.list.querySelectorAll("li:not(.left-out)")) {
      const line = item.querySelector(":scope > .row, :scope > details > summary");
      if (line === null) {
        continue;
      }
      const entry = {
        item,
        above: known.get(closest(item)) ?? null,
        text: item.dataset.fold === undefined ? line.textContent.toLowerCase() : "",
        counted: item.dataset.fold === undefined && item.dataset.heading === undefined,
      };
      known.set(item, entry);
      this.entries.push(entry);
    }
  }

  apply() {
    if (this.entries === null) {
      this.read();
    }
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const trouble = this.trouble?.checked ?? false;
    const filtering = words.length > 0 || trouble;
    if (filtering && this.before === null) {
      this.before = new Map(this.entries.map(({ item }) => [fold(item), fold(item)?.open]));
    }
    const found = filtering ? this.find(words, trouble) : this.entries.filter((e) => e.counted);
    const shown = new Set();
    for (let entry of found) {
      for (; entry !== null && !shown.has(entry); entry = entry.above) {
        shown.add(entry);
      }
    }
    for (const entry of this.entries) {
      entry.item.hidden = filtering && !shown.has(entry);
    }
    this.unfold(filtering, shown);
    const all = this.entries.filter((entry) => entry.counted).length;
    this.status.textContent = filtering ? `${found.length} of ${all} found` : "";
  }

  find(words, trouble) {
    return this.entries.filter((entry) => {
      if (!entry.counted || (trouble && entry.item.dataset.trouble === undefined)) {
        return false;
      }
      // The heading above counts as part of the line: `zone-a` finds every node of that zone.
      const heading = entry.above?.item.dataset.heading === undefined ? "" : entry.above.text;
      return words.every((word) => entry.text.includes(word) || heading.includes(word));
    });
  }

  unfold(filtering, shown) {
    if (filtering) {
      for (const entry of shown) {
        if (entry.above !== null) {
          fold(entry.above.item).open = true;
        }
      }
    } else if (this.before !== null) {
      for (const [details, open] of this.before) {
        if (details !== null) {
          details.open = open;
        }
      }
      this.before = null;
    }
  }
}

for (const tools of document.querySelectorAll(".tools")) {
  new Filter(tools);
}

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) {
    details.open = true;
  }
});
addEventListener("afterprint", () => {
  for (const details of folded) {
    details.open = false;
  }
  folded = [];
});
