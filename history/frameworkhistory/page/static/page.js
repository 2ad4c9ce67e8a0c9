// Pages are whole without this: it reads a page again when something has changed, and adds keys.
"use strict";
(() => {
  let busy = false;
  let again = false;

  const live = () => document.getElementById("live");

  async function refresh() {
    // What is selected is not taken away.
    if (busy || document.hidden || !getSelection().isCollapsed) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.status === 401) location.reload(); // to sign in again
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
      const old = live();
      if (!fresh || !old || fresh.innerHTML === old.innerHTML) return;
      const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const log = old.querySelector(".log");
      const atEnd = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
      const top = log ? log.scrollTop : 0;
      const left = [...old.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
      old.replaceWith(fresh);
      fresh.querySelectorAll(".scroll").forEach((one, place) => { one.scrollLeft = left[place] || 0; });
      const newLog = fresh.querySelector(".log");
      if (newLog) newLog.scrollTop = atEnd ? newLog.scrollHeight : top;
      if (focused) [...fresh.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
    } catch {
      again = true;
    } finally {
      busy = false;
    }
  }

  const first = live();
  const every = 1000 * Number(first?.dataset.every || 3);
  let feed = null;

  // A browser has six connections to a host: a page that nobody sees keeps none.
  function follow() {
    if (document.hidden) {
      feed?.close();
      feed = null;
      again = true;
    } else if (!feed || feed.readyState === EventSource.CLOSED) {
      feed = new EventSource(first.dataset.feed);
      // What has changed before it was open, or while it was away, is told by nobody.
      feed.onopen = feed.onmessage = feed.onerror = () => { again = true; };
      if (again) refresh();
    }
  }

  if (first?.dataset.feed) {
    document.addEventListener("visibilitychange", follow);
    setInterval(follow, 10 * every);
    follow();
  }
  // Many changes within this time are one.
  setInterval(() => (again || live()?.dataset.every) && refresh(), every);
  const log = document.querySelector(".log");
  if (log) log.scrollTop = log.scrollHeight;

  // `/` goes to the search, `j` and `k` from row to row.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/") {
      document.querySelector("form.search input:not([type=hidden])")?.focus();
      event.preventDefault();
    } else if (event.key === "j" || event.key === "k") {
      const rows = [...document.querySelectorAll("tbody th a")];
      const next = rows.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
      rows[Math.max(0, Math.min(next, rows.length - 1))]?.focus();
    }
  });
})();
