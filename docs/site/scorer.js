// The order of what a search finds: Sphinx's own weights, and what is for developers comes last.
var Scorer = {
  score: ([page, , , , score]) => score - (/(^docs\/(decisions|design)|^[A-Z]+$|^tools)/.test(page) ? 50 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
