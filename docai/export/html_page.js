// Blocks and their boxes light up together; the links between them work without this.
"use strict";
(() => {
  const twin = (id) => document.getElementById(id.startsWith("box-") ? id.slice(4) : "box-" + id);
  const light = (target, on) => {
    const one = target.closest && target.closest(".block, .box");
    const other = one && one.id && twin(one.id);
    for (const part of [one, other]) if (part) part.classList.toggle("lit", on);
    return other;
  };
  document.addEventListener("mouseover", (event) => light(event.target, true));
  document.addEventListener("mouseout", (event) => light(event.target, false));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.box, a.place");
    const other = link && document.getElementById(link.hash.slice(1));
    if (!other) return;
    event.preventDefault();
    other.scrollIntoView({ block: "nearest", behavior: "smooth" });
    history.replaceState(null, "", link.hash);
    other.classList.add("lit");
    setTimeout(() => other.classList.remove("lit"), 1500);
  });
})();
