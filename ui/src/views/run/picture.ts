/* The graph as a picture: the drawing with the colours that it has on the page, as a file of SVG. */

import { save } from "../runs/export";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "paint-order", "font-family", "font-size", "font-weight", "opacity"];

export function exportPicture(name: string): void {
  const drawing = document.getElementById("graph");
  if (!drawing) return;
  const copy = drawing.cloneNode(true) as SVGElement;
  const [shown, copied] = [drawing.querySelectorAll("*"), copy.querySelectorAll("*")];
  shown.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const property of STYLES) copied[index]?.setAttribute(property, style.getPropertyValue(property));
  });
  copy.querySelectorAll("[tabindex], [role]").forEach((element) => element.removeAttribute("tabindex"));
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(drawing.parentElement ?? drawing).backgroundColor);
  copy.prepend(ground);
  save(`${name}.svg`, new XMLSerializer().serializeToString(copy), "image/svg+xml"); // outerHTML may not be XML
}
