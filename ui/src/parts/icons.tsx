/* Icons: 16 x 16, stroke 1.5, round ends. They stand beside words, or on buttons that have a label. */

const PATHS = {
  runs: "M2.500 4.500h11M2.500 8h11M2.500 11.500h7",
  inbox: "M2.500 9.500 4.500 4h7l2 5.500v3h-11zM2.500 9.500h3.200l1 1.700h2.600l1-1.700h3.200",
  play: "M5.200 3.500v9l6.800-4.500z",
  threads: "M4.500 5v6M4.500 6.500H8a3 3 0 0 1 3 3V11M6 3.500a1.500 1.500 0 1 1-3 0a1.500 1.500 0 1 1 3 0M6 12.500a1.500 1.500 0 1 1-3 0a1.500 1.500 0 1 1 3 0M12.500 12.500a1.500 1.500 0 1 1-3 0a1.500 1.500 0 1 1 3 0",
  more: "M3.500 8h.01M8 8h.01M12.500 8h.01",
  find: "M7.200 11.400a4.200 4.200 0 1 0 0-8.400 4.200 4.200 0 0 0 0 8.400zM10.300 10.300l3 3",
  plus: "M8 3.500v9M3.500 8h9",
  minus: "M3.500 8h9",
  close: "m4.500 4.500 7 7m0-7-7 7",
  up: "M8 12.500v-9M4.500 7 8 3.500 11.500 7",
  down: "m4.500 6.300 3.500 3.500 3.500-3.500",
  left: "M9.800 4.200 6 8l3.800 3.800",
  right: "m6.200 4.200 3.800 3.800-3.800 3.800",
  copy: "M6 5.800h6.500v6.700H6zM3.500 10.200V3.300H10",
  retry: "M12.600 8.200A4.600 4.600 0 1 1 11 4.500M11.300 1.900v2.900H8.400",
  fit: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
  widen: "M9.700 3H13v3.300M6.300 13H3V9.700M13 3 9.200 6.800M3 13l3.800-3.800",
  moon: "M12.700 9.600A5.200 5.200 0 0 1 6.400 3.300a5.200 5.200 0 1 0 6.300 6.300z",
  sun: "M8 10.600a2.600 2.600 0 1 0 0-5.200 2.600 2.600 0 0 0 0 5.200zM8 2v1.200M8 12.800V14M2 8h1.200M12.800 8H14M3.800 3.800l.8.8M11.400 11.400l.8.8M12.200 3.800l-.8.8M4.600 11.400l-.8.8",
  open: "M3.500 3.500h9v9h-9zM8 6v4M6 8h4",
  shut: "M3.500 3.500h9v9h-9zM6 8h4",
  clock: "M8 13.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11zM8 5v3.200l2 1.600",
  worker: "M3 4h10v6H3zM6 13h4M8 10v3",
  cost: "M8 2.500v11M10.800 5.200c-.6-.8-1.600-1.200-2.800-1.200-1.600 0-2.800.7-2.800 2s1.200 1.700 2.800 2 2.900.8 2.900 2.100-1.300 2-2.900 2c-1.300 0-2.400-.5-3-1.300",
  graph: "M3 3h4.200v3.600H3zM8.800 9.400H13V13H8.800zM5.100 6.600v4.600h3.700",
  columns: "M3 3.500h10v9H3zM6.300 3.500v9M9.700 3.500v9",
  download: "M8 3v7M5 7.200 8 10.200l3-3M3.500 13h9",
};

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="i" viewBox="0 0 16 16" aria-hidden>
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The mark: a state, an edge, and the state that is current. */
export function Mark() {
  return (
    <svg viewBox="0 0 20 20" fill="none" stroke="var(--ink)" stroke-width="1.75" aria-hidden>
      <rect x="2" y="2" width="7" height="7" rx="1.5" />
      <path d="M5.500 9v3.500a2 2 0 0 0 2 2H11" />
      <rect x="11" y="11" width="7" height="7" rx="1.5" fill="var(--accent)" stroke="var(--accent)" />
    </svg>
  );
}

/** Patterns that bars of every view are filled with; once on the page. */
export function Patterns() {
  return (
    <svg class="defs" aria-hidden>
      <defs>
        <pattern id="hatch-warn" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="5" height="5" fill="var(--warn-tint)" />
          <rect width="1.5" height="5" fill="var(--warn-fill)" />
        </pattern>
        <pattern id="hatch-idle" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="1.5" height="5" fill="var(--idle)" />
        </pattern>
      </defs>
    </svg>
  );
}
