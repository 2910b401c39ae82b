//! Plots as SVG: frame, grid, axes with round ticks; lines with their names beside them, bands
//! around lines, boxes, timelines.
//!
//! The colours are Okabe and Ito's, told apart by colour-blind readers too.
//!
//! Deliberately absent: fonts, scripts, interaction.

mod boxes;
mod timeline;

use std::fmt::Write;

pub use boxes::{Boxes, Whiskers};
pub use timeline::timeline;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];
const GRID: &str = "#e4e4e4";
/// Names of lines stand at least this far apart.
const NAME_GAP: f64 = 15.0;

/// A line plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero, or from the lowest value if that is below.
    Linear,
    /// By powers of ten; values that are not positive are left out.
    Logarithmic,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, from left to right; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// An axis laid out over pixels.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    ticks: Vec<f64>,
}

impl Plot {
    /// The plot as a document.
    pub fn svg(&self) -> String {
        self.drawn(&COLOURS, &[])
    }

    /// The same in these colours, a line in each; they are used in turn.
    pub fn svg_in(&self, colours: &[&str]) -> String {
        self.drawn(colours, &[])
    }

    /// The same with a band around each line: from left to right, where it is, its lower and its
    /// upper end.
    pub fn svg_with(&self, bands: &[Vec<(f64, f64, f64)>]) -> String {
        self.drawn(&COLOURS, bands)
    }

    fn drawn(&self, colours: &[&str], bands: &[Vec<(f64, f64, f64)>]) -> String {
        let lines: Vec<Vec<(f64, f64)>> = self
            .series
            .iter()
            .map(|series| self.visible(series))
            .collect();
        let ends = bands.iter().flatten().flat_map(|band| [band.1, band.2]);
        let ends = ends.filter(|end| end.is_finite());
        let (mut svg, x, y) = frame(
            &self.title,
            &self.x,
            &self.y,
            lines.iter().flatten().map(|p| p.0),
            lines.iter().flatten().map(|p| p.1).chain(ends),
        );
        for (index, band) in bands.iter().enumerate() {
            draw_band(&mut svg, colours[index % colours.len()], &x, &y, band);
        }
        let mut names = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let points: Vec<(f64, f64)> = line.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
            draw_line(&mut svg, colours[index % colours.len()], &points);
            names.extend(points.last().map(|point| (point.1, index)));
        }
        self.draw_names(&mut svg, names, colours);
        svg.push_str("</svg>\n");
        svg
    }

    fn visible(&self, series: &Series) -> Vec<(f64, f64)> {
        let fits = |value: f64, scale| match scale {
            Scale::Linear => value.is_finite(),
            Scale::Logarithmic => value.is_finite() && 0.0 < value,
        };
        let points = series.points.iter().copied();
        points
            .filter(|p| fits(p.0, self.x.scale) && fits(p.1, self.y.scale))
            .collect()
    }

    /// Names at the ends of their lines, moved apart where they would overlap.
    fn draw_names(&self, svg: &mut String, mut names: Vec<(f64, usize)>, colours: &[&str]) {
        names.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut free = f64::NEG_INFINITY;
        for (end, index) in names {
            let at = end.max(free);
            free = at + NAME_GAP;
            let fill = format!("fill=\"{}\"", colours[index % colours.len()]);
            text(
                svg,
                WIDTH - RIGHT + 8.0,
                at + 4.0,
                &fill,
                &self.series[index].name,
            );
        }
    }
}

/// The beginning of a document: title, grid and axes over these values.
fn frame(
    title: &str,
    x: &Axis,
    y: &Axis,
    xs: impl Iterator<Item = f64>,
    ys: impl Iterator<Item = f64>,
) -> (String, Ruler, Ruler) {
    let across = Ruler::new(x.scale, xs, LEFT, WIDTH - RIGHT);
    let up = Ruler::new(y.scale, ys, HEIGHT - BOTTOM, TOP);
    let mut svg = document(WIDTH, HEIGHT, title);
    draw_axes(&mut svg, x, &across, y, &up);
    (svg, across, up)
}

/// The beginning of a document of this size, with a title.
fn document(width: f64, height: f64, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let style = "font-size=\"15\" font-weight=\"bold\"";
    text(&mut svg, LEFT, 24.0, style, title);
    svg
}

fn draw_axes(svg: &mut String, across: &Axis, x: &Ruler, up: &Axis, y: &Ruler) {
    for &tick in &x.ticks {
        let at = x.at(tick);
        line(svg, GRID, (at, y.start), (at, y.end));
        let label = number(tick);
        text(svg, at, y.start + 18.0, "text-anchor=\"middle\"", &label);
    }
    for &tick in &y.ticks {
        let at = y.at(tick);
        line(svg, GRID, (x.start, at), (x.end, at));
        let label = number(tick);
        text(svg, x.start - 8.0, at + 4.0, "text-anchor=\"end\"", &label);
    }
    line(svg, "#333", (x.start, y.start), (x.end, y.start));
    line(svg, "#333", (x.start, y.start), (x.start, y.end));
    let (middle_x, middle_y) = (f64::midpoint(x.start, x.end), f64::midpoint(y.start, y.end));
    let below = HEIGHT - 14.0;
    text(
        svg,
        middle_x,
        below,
        "text-anchor=\"middle\"",
        &across.label,
    );
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 18 {middle_y:.1})\"");
    text(svg, 18.0, middle_y, &turned, &up.label);
}

impl Ruler {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let range = values.fold(None, |range: Option<(f64, f64)>, value| {
            Some(range.map_or((value, value), |(low, high)| {
                (low.min(value), high.max(value))
            }))
        });
        let (low, high, ticks) = match scale {
            Scale::Linear => {
                let (low, high) = range.unwrap_or((0.0, 1.0));
                linear(low, high)
            }
            Scale::Logarithmic => {
                let (low, high) = range.unwrap_or((1.0, 10.0));
                logarithmic(low, high)
            }
        };
        Ruler {
            scale,
            low,
            high,
            start,
            end,
            ticks,
        }
    }

    /// Where a value stands, in pixels.
    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        self.start + share * (self.end - self.start)
    }
}

/// Ends and ticks that are 1, 2 or 5 times a power of ten apart, some five of them.
fn linear(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let low = low.min(0.0);
    let span = if low < high { high - low } else { 1.0 };
    let power = 10_f64.powf((span / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|factor| factor * power);
    let step = steps
        .into_iter()
        .find(|step| span / step <= 6.0)
        .unwrap_or(10.0 * power);
    let (first, last) = (
        (low / step).floor() as i64,
        ((low + span) / step).ceil() as i64,
    );
    let ticks: Vec<f64> = (first..=last).map(|index| index as f64 * step).collect();
    (first as f64 * step, last as f64 * step, ticks)
}

/// Ends and ticks that are powers of ten.
fn logarithmic(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let first = low.log10().floor() as i32;
    let last = (high.log10().ceil() as i32).max(first + 1);
    let ticks = (first..=last).map(|power| 10_f64.powi(power)).collect();
    (10_f64.powi(first), 10_f64.powi(last), ticks)
}

/// A tick's label: shortened from a thousand on, without the noise of binary fractions.
fn number(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if 1e9 <= size => (value / 1e9, "G"),
        size if 1e6 <= size => (value / 1e6, "M"),
        size if 1e3 <= size => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

fn draw_line(svg: &mut String, colour: &str, points: &[(f64, f64)]) {
    let mut path = String::new();
    for (x, y) in points {
        let separator = if path.is_empty() { "" } else { " " };
        write!(path, "{separator}{x:.1},{y:.1}").expect("a string takes any text");
    }
    writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
         stroke-linejoin=\"round\" points=\"{path}\"/>"
    )
    .expect("a string takes any text");
}

/// The area between the ends of a band; what is not finite is left out.
fn draw_band(svg: &mut String, colour: &str, x: &Ruler, y: &Ruler, band: &[(f64, f64, f64)]) {
    let is_there = |ends: &&(f64, f64, f64)| ends.1.is_finite() && ends.2.is_finite();
    let upper = band.iter().filter(is_there).map(|ends| (ends.0, ends.2));
    let lower = band.iter().rev().filter(is_there);
    let corners = upper.chain(lower.map(|ends| (ends.0, ends.1)));
    let mut path = String::new();
    for (across, up) in corners {
        let separator = if path.is_empty() { "" } else { " " };
        write!(path, "{separator}{:.1},{:.1}", x.at(across), y.at(up))
            .expect("a string takes any text");
    }
    writeln!(
        svg,
        "<polygon fill=\"{colour}\" fill-opacity=\"0.25\" points=\"{path}\"/>"
    )
    .expect("a string takes any text");
}

fn line(svg: &mut String, colour: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    )
    .expect("a string takes any text");
}

fn text(svg: &mut String, x: f64, y: f64, attributes: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{content}</text>"
    )
    .expect("a string takes any text");
}

#[cfg(test)]
mod tests;
