//! Box plots, with the whiskers that the reader asks for.

use std::fmt::Write;

use super::{Axis, COLOURS, Scale, frame, line, text};
use crate::statistics::Quartiles;

/// Half a box's width, in parts of the distance between two.
const HALF: f64 = 0.3;

/// How far whiskers reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whiskers {
    /// To the last observation within 1.5 interquartile ranges of the box (Tukey).
    Observed,
    /// To 1.5 interquartile ranges, whether anything was observed there or not (Ampaporn and
    /// Gertphol).
    Formula,
}

/// Boxes beside each other. Outliers are not drawn.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// What they show.
    pub title: String,
    /// What the boxes are of.
    pub x: String,
    /// What is measured, with the unit.
    pub y: String,
    /// Each with its name.
    pub boxes: Vec<(String, Quartiles)>,
    /// How far whiskers reach.
    pub whiskers: Whiskers,
}

impl Boxes {
    /// The plot as a document.
    pub fn svg(&self) -> String {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
        };
        let ends = |quartiles: &Quartiles| match self.whiskers {
            Whiskers::Observed => quartiles.observed,
            Whiskers::Formula => quartiles.formula(),
        };
        let count = self.boxes.len() as f64;
        let values = self.boxes.iter().flat_map(|(_, quartiles)| {
            let (low, high) = ends(quartiles);
            [low, high]
        });
        let (mut svg, mut x, y) = frame(
            &self.title,
            &axis(""),
            &axis(&self.y),
            std::iter::empty(),
            values,
        );
        (x.low, x.high, x.ticks) = (0.0, count.max(1.0), Vec::new());
        for (index, (name, quartiles)) in self.boxes.iter().enumerate() {
            let middle = index as f64 + 0.5;
            let (left, right) = (x.at(middle - HALF), x.at(middle + HALF));
            let at = x.at(middle);
            let (low, high) = ends(quartiles);
            for (from, to) in [(low, quartiles.q1), (quartiles.q3, high)] {
                line(&mut svg, "#333", (at, y.at(from)), (at, y.at(to)));
            }
            for end in [low, high] {
                let half = (right - left) / 4.0;
                line(
                    &mut svg,
                    "#333",
                    (at - half, y.at(end)),
                    (at + half, y.at(end)),
                );
            }
            let (top, bottom) = (y.at(quartiles.q3), y.at(quartiles.q1));
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{}\" fill-opacity=\"0.35\" stroke=\"#333\"/>",
                right - left,
                bottom - top,
                COLOURS[0]
            )
            .expect("a string takes any text");
            let median = y.at(quartiles.median);
            line(&mut svg, COLOURS[1], (left, median), (right, median));
            let below = y.start + 18.0;
            text(&mut svg, at, below, "text-anchor=\"middle\"", name);
        }
        let middle = f64::midpoint(x.start, x.end);
        let below = super::HEIGHT - 14.0;
        text(&mut svg, middle, below, "text-anchor=\"middle\"", &self.x);
        svg.push_str("</svg>\n");
        svg
    }
}
