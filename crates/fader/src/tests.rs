//! The command line as a whole.

use clap::CommandFactory as _;

use super::Cli;

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}
