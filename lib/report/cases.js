"use strict";
// The pages of cases. Text reaches the page as text nodes alone, never as markup.
(async () => {
  let theme = "";
  try { theme = localStorage.getItem("theme") || ""; } catch { /* a browser may forbid it */ }  // the book's, if it was chosen there
  document.documentElement.dataset.theme = theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const at = (id) => document.getElementById(id);
  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const fail = (text) => { at("problem").textContent = text; at("problem").hidden = false; };

  if (typeof DecompressionStream === "undefined") {
    fail("This page needs a browser of 2023 or later.");
    return;
  }
  let data;
  try {
    const bytes = Uint8Array.from(atob(at("data").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    data = JSON.parse(await new Response(stream).text());
  } catch (error) {
    fail(`The data of this page cannot be read: ${error.message}`);
    return;
  }
  const queries = data.page === "queries";
  const K = 3;
  const percent = (part, whole) => (whole ? `${(100 * part / whole).toFixed(1)}%` : "–");
  const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

  // ---- the state: what the address says
  let state = {}, shown = [], syncing = 0;
  const names = new Set([...data.facets.map((facet) => facet.name), "q", "case"]);
  const readAddress = () => {
    const asked = [...new URLSearchParams(location.hash.slice(1))];
    const strange = asked.filter(([name]) => !names.has(name)).map(([name]) => name);
    at("problem").hidden = !strange.length;
    if (strange.length) fail(`This page has no filter ${strange.join(", ")}; the address is read without it.`);
    state = Object.fromEntries(asked.filter(([name, value]) => names.has(name) && value !== ""));
  };
  const writeAddress = () => {  // late, since browsers slow down what changes the address at every key
    clearTimeout(syncing);
    syncing = setTimeout(() => {
      const pairs = [...names].filter((name) => state[name]).map((name) => [name, state[name]]);
      history.replaceState(null, "", `#${new URLSearchParams(pairs)}`);
    }, 200);
  };

  // ---- which cases are asked for
  const hits = (query, ranking) => query.relevant.filter((item) => ranking.slice(0, K).includes(item)).length;
  const outcome = (query, ranking) => {
    const found = hits(query, ranking);
    return found === 0 ? "none" : found === query.relevant.length ? "all" : "some";
  };
  const of = (table, name) => !name ? Object.values(table) : table[name] === undefined ? [] : [table[name]];  // of the one chosen, or of all
  const answersOf = (flow) => of(flow.by, state.condition).map((number) => flow.answers[number]);
  const truth = { yes: 1, no: 0 };
  const fits = queries
    ? (query) => {
        if (state.kind && query.kind !== state.kind) return false;
        if (state.need && query.need !== state.need) return false;
        if (state.method || state.found) {
          const rankings = of(query.found, state.method);
          if (!rankings.some((ranking) => !state.found || outcome(query, ranking) === state.found)) return false;
        }
        if (state.setting || state.right || state.cause) {
          const asked = (plan) => (!state.right || plan[1] === truth[state.right]) && (!state.cause || plan[2] === state.cause);
          if (!of(query.plans, state.setting).some(asked)) return false;
        }
        if (state.missed_by && !of(query.found, state.missed_by).some((ranking) => outcome(query, ranking) !== "all")) return false;
        if (state.wrong_in && !of(query.plans, state.wrong_in).some((plan) => plan[1] === 0)) return false;
        return true;
      }
    : (flow) => {
        if (state.set && flow.set !== state.set) return false;
        if (state.api && !flow.apis.includes(state.api)) return false;
        if (state.wrong_under && !of(flow.by, state.wrong_under).some((number) => flow.answers[number][2] !== "same")) return false;
        if (state.condition || state.result) return answersOf(flow).some((answer) => !state.result || answer[2] === state.result);
        return true;
      };
  const texts = new Map();
  const textOf = (one) => {
    if (!texts.has(one)) {
      const parts = queries
        ? [one.id, one.persona, one.text, one.need.replaceAll("_", " "), one.plan, ...one.apis,
           ...one.relevant.flatMap((item) => data.items[item]), ...Object.values(one.plans).map((plan) => plan[0])]
        : [one.id, one.text, ...one.gold, ...one.answers.flatMap((answer) => [...answer[0].flatMap((change) => change[2]), ...answer[5]])];
      texts.set(one, parts.join("\n").toLowerCase());
    }
    return texts.get(one);
  };
  const search = () => {
    const words = (state.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    shown = data.cases.filter((one) => fits(one) && words.every((word) => textOf(one).includes(word)));
  };

  // ---- what is said of all that were found
  const summary = () => {
    const parts = [`${count(shown.length, "case", "cases")} of ${data.cases.length.toLocaleString("en")}`];
    if (queries && state.method) {
      const rankings = shown.map((query) => [query, of(query.found, state.method)[0]]).filter(([query]) => query.relevant.length);
      const recall = rankings.reduce((sum, [query, ranking]) => sum + hits(query, ranking) / query.relevant.length, 0);
      parts.push(`Recall@${K} of ${data.methods[state.method]} on them: ${percent(recall, rankings.length)}`);
    }
    if (queries && state.setting) {
      const plans = shown.flatMap((query) => of(query.plans, state.setting));
      parts.push(`right plans, ${data.settings[state.setting]}: ${percent(plans.filter((plan) => plan[1] === 1).length, plans.length)}`);
    }
    if (!queries && state.condition) {
      const answers = shown.flatMap(answersOf);
      const mean = answers.reduce((sum, answer) => sum + answer[1], 0) / answers.length;
      const ran = answers.filter((answer) => answer[3] !== null);
      const executed = ran.length ? `, runs right ${percent(ran.filter((answer) => answer[3] === 1).length, ran.length)}` : "";
      if (answers.length) parts.push(`${data.conditions[state.condition]}: similarity ${mean.toFixed(2)}${executed}`);
    }
    return parts.join(" · ");
  };
  // ---- the filters
  const controls = () => {
    const form = at("filters"), fieldsets = new Map();
    for (const facet of data.facets) {
      if (!fieldsets.has(facet.group)) fieldsets.set(facet.group, make("fieldset", {}, make("legend", {}, facet.group)));
      const select = make("select", { name: facet.name }, make("option", { value: "" }, "any"));
      for (const [value, label] of facet.options) select.append(make("option", { value }, label));
      fieldsets.get(facet.group).append(make("label", {}, facet.label, select));
    }
    const field = make("input", { type: "search", name: "q", autocomplete: "off", placeholder: "words, a name, an id" });
    const clear = make("button", { type: "button", id: "clear" }, "Clear all");
    form.append(...fieldsets.values(), make("label", {}, "Search", field), clear);
    let waiting = 0;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => {
      const { name, value } = event.target;
      if (value) state[name] = value; else delete state[name];
      clearTimeout(waiting);
      waiting = setTimeout(() => { update(); writeAddress(); }, name === "q" ? 150 : 0);
    });
    clear.addEventListener("click", () => { state = {}; update(); writeAddress(); });
    form.hidden = false;
  };
  const fill = () => {
    for (const control of at("filters").elements) {
      if (!control.name) continue;
      const asked = state[control.name] || "";
      if (control.tagName === "SELECT" && ![...control.options].some((option) => option.value === asked)) {
        control.append(make("option", { value: asked }, `${asked} (not here)`));
      }
      if (control.value !== asked) control.value = asked;
      control.classList.toggle("set", asked !== "");
    }
  };

  // ---- the list
  const mark = (good, text) => make("span", { class: good }, text);
  const CLASS = { all: "good", same: "good", calls: "part", some: "part", none: "bad" };
  const SIGN = { good: "✓ ", part: "◐ ", bad: "✗ " };
  const found = (query, ranking) => {
    const kind = CLASS[outcome(query, ranking)];
    return mark(kind, `${SIGN[kind]}${hits(query, ranking)} of ${query.relevant.length} relevant among the first ${K}`);
  };
  const rightness = (plan) => plan[1] === 1 ? mark("good", "✓ right") : mark("bad", `✗ ${data.causes[plan[2]] || plan[2] || "wrong"}`);
  const success = (answer) => {
    const kind = answer[3] === 1 ? "good" : CLASS[answer[2]];
    return mark(kind, `${SIGN[kind]}${answer[3] === 1 && answer[2] !== "same" ? "runs right: " : ""}${data.results[answer[2]]}`);
  };
  const row = (one, number) => {
    const marks = [];
    if (queries && state.method) marks.push(...of(one.found, state.method).map((ranking) => found(one, ranking)));
    if (queries && state.setting) marks.push(...of(one.plans, state.setting).map(rightness));
    if (!queries && state.condition) marks.push(...answersOf(one).map(success));
    const about = queries ? `${one.id} · ${one.kind} · ${one.need.replaceAll("_", " ")}` : `${one.id} · ${count(one.apis.length, "call", "calls")}`;
    const lines = marks.map((node) => make("small", {}, node));
    return make("div", { role: "option", id: `case-${number}`, "aria-selected": "false", "data-number": number }, one.text, make("small", {}, about), ...lines);
  };
  const chosen = () => shown.findIndex((one) => one.id === state.case);
  const choose = (number, scroll) => {
    const list = at("list"), before = list.querySelector("[aria-selected='true']"), now = list.children[number];
    if (before) before.setAttribute("aria-selected", "false");
    if (now) {
      now.setAttribute("aria-selected", "true");
      list.setAttribute("aria-activedescendant", now.id);
      if (scroll) now.scrollIntoView({ block: "nearest" });
    } else list.removeAttribute("aria-activedescendant");
    detail(shown[number]);
  };
  const update = () => {
    fill();
    search();
    at("summary").textContent = summary();
    at("list").replaceChildren(...shown.map(row));
    at("panes").hidden = !shown.length;
    let number = chosen();
    if (number < 0 && shown.length) {
      number = Math.max(0, shown.findIndex((one) => one.id === data.first));
      state.case = shown[number].id;
    }
    if (!shown.length) delete state.case;
    choose(number, false);
    const own = at("list").children[number];
    if (own) at("list").scrollTop = own.offsetTop - at("list").offsetTop - 40;
  };

  // ---- one case
  const pairs = (rows) => make("dl", {}, ...rows.filter(([, value]) => value !== "" && value !== null).flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)]));
  const code = (text) => make("code", {}, text);
  const item = (number) => {
    const [app, title, rest] = data.items[number];
    return [`${app}: `, make("b", {}, title), rest ? ` ${rest}` : ""];
  };
  const listing = (entries, gold, write) => make("ol", {}, ...entries.map((one) => gold.has(one)
    ? make("li", { class: "gold" }, ...write(one), " (relevant)") : make("li", {}, ...write(one))));
  const queryDetail = (query) => {
    const relevant = new Set(query.relevant);
    const rankings = Object.entries(data.methods).map(([name, label]) => [name, label, query.found[name]]).filter((entry) => entry[2]);
    const plans = Object.entries(data.settings).map(([name, label]) => [name, label, query.plans[name]]).filter((entry) => entry[2]);
    const none = (text) => make("p", { class: "none" }, text);
    return [
      make("h2", {}, `“${query.text}”`),
      pairs([["said", query.when], ["kind", query.kind], ["topic", query.need.replaceAll("_", " ")], ["persona", query.persona],
        ["right plan", code(query.plan)], ["right tools", query.apis.join(", ") || "none fits"]]),
      make("h3", {}, "Relevant items"),
      query.relevant.length ? make("ul", {}, ...query.relevant.map((one) => make("li", {}, ...item(one)))) : none("None."),
      make("h3", {}, "What each method found"),
      ...(rankings.length ? rankings.map(([name, label, ranking]) => {
        const ranks = query.relevant.map((one) => ranking.indexOf(one) + 1).sort((a, b) => (a || 99) - (b || 99)).map((rank) => rank || "beyond 10");
        return make("details", name === state.method ? { open: "" } : {},
          make("summary", {}, make("b", {}, label), ": ", found(query, ranking), ranks.length ? `, at rank ${ranks.join(", ")}` : ""), listing(ranking, relevant, item));
      }) : [none("No method ranked it.")]),
      make("h3", {}, "What the planner wrote"),
      ...(plans.length ? plans.map(([, label, plan]) => make("details", { open: "" },
        make("summary", {}, make("b", {}, label), ": ", rightness(plan)), make("p", {}, code(plan[0] || "(nothing)"))))
        : [none("It was not among the queries planned.")]),
    ];
  };
  const marked = (line, other) => {  // a line with what it does not share with the one that it stands beside
    if (other === undefined) return [line];
    let start = 0, end = 0;
    const most = Math.min(line.length, other.length);
    while (start < most && line[start] === other[start]) start += 1;
    while (end < most - start && line[line.length - 1 - end] === other[other.length - 1 - end]) end += 1;
    if (2 * (start + end) < most) return [line];  // two lines of nothing in common
    return [line.slice(0, start), make("mark", {}, line.slice(start, line.length - end)), line.slice(line.length - end)];
  };
  const difference = (gold, changes) => {
    const lines = [];
    let next = 0;
    for (const [start, end, written] of changes) {
      for (; next < start; next += 1) lines.push(make("span", {}, `  ${gold[next]}`));
      const wanted = gold.slice(start, end);
      wanted.forEach((line, number) => lines.push(make("del", {}, "− ", ...marked(line, written[number]))));
      written.forEach((line, number) => lines.push(make("ins", {}, "+ ", ...marked(line, wanted[number]))));
      next = end;
    }
    for (; next < gold.length; next += 1) lines.push(make("span", {}, `  ${gold[next]}`));
    return make("pre", {}, ...lines);
  };
  const flowDetail = (flow) => {
    const wrote = flow.answers.map(() => []);
    for (const [condition, answer] of Object.entries(flow.by)) wrote[answer].push(condition);
    const chosenOne = state.condition;
    const order = flow.answers.map((_, number) => number).sort((a, b) => wrote[b].includes(chosenOne) - wrote[a].includes(chosenOne)
      || flow.answers[b][1] - flow.answers[a][1] || flow.answers[a][0].length - flow.answers[b][0].length);
    return [
      make("h2", {}, flow.text),
      pairs([["test set", data.sets[flow.set] || flow.set], ["calls", flow.apis.join(", ")]]),
      make("h3", {}, "The flow that is wanted"),
      make("pre", {}, ...flow.gold.map((line) => make("span", {}, `  ${line}`))),
      make("h3", {}, `What was written: ${count(Object.keys(flow.by).length, "condition", "conditions")}, ${count(flow.answers.length, "flow", "flows")}`),
      ...order.map((number) => {
        const [changes, similarity, , executed, error, made, finished] = flow.answers[number];
        const ran = executed === null ? "" : executed === 1 ? " · runs right" : " · does not run right";
        const by = wrote[number].map((condition) => make("li", condition === chosenOne ? { class: "gold" } : {}, data.conditions[condition]));
        return make("section", {}, make("p", {}, success(flow.answers[number]), ` · similarity ${similarity.toFixed(2)}${ran}${finished ? "" : " · not finished"}`),
          make("ul", { "aria-label": "Written under" }, ...by),
          pairs([["made up", made.join("; ")], ["does not parse", error]]),
          changes.length ? difference(flow.gold, changes) : null);
      }),
      ...(flow.answers.length ? [] : [make("p", { class: "none" }, "No condition was asked about it.")]),
    ];
  };
  const detail = (one) => at("detail").replaceChildren(...(one ? (queries ? queryDetail(one) : flowDetail(one)) : []));

  // ---- keys and clicks
  const open = (number) => {
    if (!shown.length) return;
    const inside = Math.min(Math.max(number, 0), shown.length - 1);
    state.case = shown[inside].id;
    choose(inside, true);
    writeAddress();
  };
  const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
  at("list").addEventListener("keydown", (event) => {
    if (event.key in STEPS) open(chosen() + STEPS[event.key]);
    else if (event.key === "Enter") at("detail").focus();
    else return;
    event.preventDefault();
  });
  at("list").addEventListener("click", (event) => {
    const own = event.target.closest("[role='option']");
    if (own) open(Number(own.dataset.number));
  });
  at("detail").addEventListener("keydown", (event) => { if (event.key === "Escape") at("list").focus(); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    at("filters").elements.q.focus();
    event.preventDefault();
  });
  window.addEventListener("hashchange", () => { readAddress(); update(); });

  if (!queries) at("lead").append(` Flows that parse are shown in one layout, so that a difference is one of content. Of each condition and test set there are at most ${data.most} answers.`);
  controls();
  readAddress();
  update();
})();
