// The report's plots. This script runs in the page, after uPlot. The page contains its data as JSON.

/**
 * @typedef {{ name: string, values: number[], color: string, dashed?: boolean }} Series
 * @typedef {{ id: string, stacked?: boolean, series: Series[] }} Plot
 * @typedef {{ times: number[], width: number, partial: [number, number][], plots: Plot[] }} Data
 */

const { uPlot } = /** @type {{ uPlot: typeof import('uplot') }} */ (/** @type {unknown} */ (window));
const data = /** @type {Data} */ (JSON.parse(document.getElementById('data')?.textContent ?? 'null'));
const begin = data.times[0] ?? 0;
const end = (data.times.at(-1) ?? 0) + data.width;

/** @param {string} name */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {HTMLElement} element */
function sizeOf(element) {
  const isPaper = document.documentElement.classList.contains('paper');
  return { width: isPaper ? 660 : Math.max(280, element.clientWidth), height: 240 };
}

const axis = {
  stroke: () => color('--quiet'),
  grid: { stroke: () => color('--line'), width: 1 },
  ticks: { stroke: () => color('--line'), width: 1 },
};

/**
 * Ticks of the time's axis: days, or the time of day.
 * @param {number[]} ticks
 * @param {number} step
 */
function timeLabels(ticks, step) {
  return ticks.map((tick) => {
    const [date = '', time = ''] = new Date(tick * 1000).toISOString().split('T');
    return step >= 86_400 ? date : time.slice(0, step < 60 ? 8 : 5);
  });
}

/**
 * Shades the intervals of which the log covers a part only.
 * @param {uPlot} chart
 */
function shade({ ctx, bbox, valToPos }) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = color('--line');
  ctx.globalAlpha = 0.6;
  for (const [from, to] of data.partial) {
    const left = valToPos(from, 'x', true);
    ctx.fillRect(left, bbox.top, valToPos(to, 'x', true) - left, bbox.height);
  }
  ctx.restore();
}

/** @type {number | undefined} */
let pointed;

/**
 * A tap on a button takes the cursor off the plot.
 * @param {uPlot} chart
 */
function remember({ cursor: { idx } }) {
  if (idx !== null && idx !== undefined) pointed = (data.times[idx] ?? begin) + data.width / 2;
}

const bars = uPlot.paths.bars?.({ align: 1, size: [1, Infinity], gap: 0 });

/** Whether values are drawn by their logarithm; near 0 by themselves, so that 0 has a place. */
let isLog = false;

/** @param {number} value */
const shown = (value) => value.toLocaleString('en-US', { maximumFractionDigits: 1 });

/**
 * Ticks of such an axis.
 * @param {number} most
 */
function logTicks(most) {
  const ticks = [0];
  for (let unit = 1; unit <= most; unit *= 10) ticks.push(...[1, 2, 5].map((n) => n * unit));
  return ticks.filter((tick) => tick <= most);
}

/** @param {Plot} plot */
function draw({ id, stacked = false, series }) {
  const element = /** @type {HTMLElement} */ (document.getElementById(id));
  // Each layer is filled from its top down. The layers below it are drawn over it.
  const sums = series.map(({ values }, n) =>
    stacked
      ? values.map((_, i) => series.slice(0, n + 1).reduce((sum, each) => sum + (each.values[i] ?? 0), 0))
      : values,
  );
  const order = series.map((_, n) => (stacked ? series.length - 1 - n : n));
  const chart = new uPlot(
    {
      ...sizeOf(element),
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), 'Etc/UTC'),
      cursor: { sync: { key: 'report' } },
      scales: {
        x: { range: (_, least, most) => [least, Math.min(end, most === data.times.at(-1) ? end : most)] },
        y: { distr: isLog ? 4 : 1, range: (_, __, most) => [0, Math.max(1, most * 1.05)] },
      },
      axes: [
        { ...axis, space: 70, values: (...[, ticks, , , step]) => timeLabels(ticks, step) },
        {
          ...axis,
          size: 60,
          values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : shown(tick))),
          ...(isLog ? { splits: (_, __, ___, most) => logTicks(most), filter: (_, ticks) => ticks } : {}),
        },
      ],
      hooks: { drawAxes: [shade], setCursor: [remember] },
      series: [
        { label: 'UTC', value: '{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}' },
        ...order.map((n) => {
          const { name, color: own, values, dashed = false } = /** @type {Series} */ (series[n]);
          return {
            label: name,
            stroke: () => color(own),
            ...(dashed ? { dash: [6, 4] } : {}),
            ...(!stacked && series.length > 1
              ? {}
              : {
                  fill: () => (stacked ? color(own) : `color-mix(in srgb, ${color(own)} 20%, transparent)`),
                }),
            width: stacked ? 0 : 1.5,
            points: { show: !stacked && !dashed && data.times.length < 3 },
            ...(stacked && bars ? { paths: bars } : {}),
            /** @type {(_: uPlot, __: number, ___: number, i: number | null) => string} */
            value: (_, __, ___, i) => (i === null ? '--' : shown(values[i] ?? 0)),
          };
        }),
      ],
    },
    [data.times, ...order.map((n) => sums[n] ?? [])],
    element,
  );
  return { chart, element };
}

let charts = data.plots.map(draw);

/** Draws all plots again, and keeps the zoom. */
function redraw() {
  const { min, max } = charts[0]?.chart.scales['x'] ?? {};
  for (const { chart } of charts) chart.destroy();
  charts = data.plots.map(draw);
  if (min !== undefined && max !== undefined && (min > begin || max < end)) show(min, max);
}

/**
 * @param {number} min
 * @param {number} max
 */
function show(min, max) {
  for (const { chart } of charts) chart.setScale('x', { min, max });
}

/** @type {{ [id: string]: number }} */
const ZOOMS = { in: 0.5, out: 2, all: Infinity };

/** @param {number} factor of the visible time; the middle is the last point under the pointer, if it is visible */
function zoom(factor) {
  const [first] = charts;
  if (!first) return;
  const { min = begin, max = end } = first.chart.scales['x'] ?? {};
  const middle = pointed !== undefined && pointed >= min && pointed < max ? pointed : (min + max) / 2;
  const span = Math.max(3 * data.width, (max - min) * factor);
  const from = Math.max(begin, Math.min(end - span, middle - span / 2));
  show(from, Math.min(end, from + span));
}

for (const [id, factor] of Object.entries(ZOOMS)) {
  document.getElementById(id)?.addEventListener('click', () => zoom(factor));
}
const logButton = document.getElementById('log');
logButton?.addEventListener('click', () => {
  isLog = !isLog;
  logButton.setAttribute('aria-pressed', String(isLog));
  redraw();
});
document.querySelector('.zoom')?.removeAttribute('hidden');

addEventListener('resize', () => {
  for (const { chart, element } of charts) chart.setSize(sizeOf(element));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { chart } of charts) chart.redraw();
});

// Paper is white, and its width is fixed.
for (const [event, isPaper] of /** @type {const} */ ([
  ['beforeprint', true],
  ['afterprint', false],
])) {
  addEventListener(event, () => {
    document.documentElement.classList.toggle('paper', isPaper);
    redraw();
  });
}

/** @param {string} text a cell, of a number, a share or anything else */
function numberOf(text) {
  const number = /^([<>] )?([\d,]+(?:\.\d+)?)/.exec(text);
  if (!number) return NaN;
  const value = Number((number[2] ?? '').replaceAll(',', ''));
  return number[1] === '< ' ? value / 2 : number[1] === '> ' ? value + 0.001 : value;
}

/**
 * @param {HTMLTableElement} table
 * @param {number} column
 */
function sort(table, column) {
  const heads = [...table.querySelectorAll('th')];
  const isUp = heads[column]?.getAttribute('aria-sort') === 'descending';
  const [body] = table.tBodies;
  if (!body) return;
  const textOf = (/** @type {HTMLTableRowElement} */ row) => row.cells[column]?.textContent ?? '';
  const rows = [...body.rows];
  // Times begin with a number too, but are in order as text.
  const isNumeric = rows.every((row) => {
    const text = textOf(row);
    return text === '-' || (!/^\d+-/.test(text) && !Number.isNaN(numberOf(text)));
  });
  rows.sort((one, other) => {
    const [a, b] = [textOf(one), textOf(other)];
    return isNumeric ? (numberOf(a) || 0) - (numberOf(b) || 0) : a.localeCompare(b, 'en');
  });
  body.append(...(isUp ? rows : rows.reverse()));
  heads.forEach((head, i) => {
    if (i === column) head.setAttribute('aria-sort', isUp ? 'ascending' : 'descending');
    else head.removeAttribute('aria-sort');
  });
}

/** @param {string} text a cell; formulas of spreadsheets become text */
function csvCell(text) {
  const safe = /^[=+@\t\r]|^-./.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {HTMLTableElement} table */
function csv(table) {
  const lines = [...table.rows].map((row) => [...row.cells].map((cell) => csvCell(plain(cell))).join(','));
  return `\ufeff${lines.join('\r\n')}\r\n`;
}

/** @param {HTMLTableCellElement} cell numbers without the commas that are for people */
function plain(cell) {
  const text = cell.textContent ?? '';
  return /^[\d,]+$/.test(text) ? text.replaceAll(',', '') : text;
}

for (const table of /** @type {NodeListOf<HTMLTableElement>} */ (
  document.querySelectorAll('table[data-name]')
)) {
  table.querySelectorAll('th').forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    button.addEventListener('click', () => sort(table, column));
    head.append(button);
  });
  const name = table.dataset['name'] ?? 'table';
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'csv';
  button.textContent = 'CSV';
  button.setAttribute('aria-label', `Save the table "${name}" as CSV`);
  button.addEventListener('click', () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([csv(table)], { type: 'text/csv' }));
    link.download = `${name.replaceAll(' ', '-')}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  table.parentElement?.after(button);
}
