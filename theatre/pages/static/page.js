// What a page does beyond its text: it searches lists, and says when a tier has lapsed since it was
// made. Without scripts the lists are whole, and the date of expiry stands in the text.
"use strict";

for (const input of document.querySelectorAll("input[data-filters]")) {
  const items = [...document.getElementById(input.dataset.filters).children];
  const texts = items.map((item) => item.textContent.toLowerCase());
  const output = input.parentElement.querySelector("output");
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    let shown = 0;
    items.forEach((item, place) => {
      item.hidden = !texts[place].includes(wanted);
      shown += item.hidden ? 0 : 1;
    });
    output.textContent = wanted ? `${shown} of ${items.length}` : "";
  });
  input.parentElement.hidden = false;
}

for (const verdict of document.querySelectorAll("[data-expires]")) {
  if (Date.now() >= Date.parse(verdict.dataset.expires)) {
    verdict.classList.remove("good", "warn");
    verdict.classList.add("bad");
    verdict.querySelector(".standing").hidden = true;
    verdict.querySelector(".lapsed").hidden = false;
  }
}
