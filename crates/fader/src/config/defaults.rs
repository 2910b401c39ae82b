//! The defaults of settings, as help and the reference show them: from the code that applies them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use fader_services::request::Limits;

use super::table::NONE;
use super::{Checked, Choice, Config, FileOption, Origin, Setting, Values, choose, limits};

/// The value of each setting that has one though nothing is said, by the setting's name.
static DEFAULTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let rows = of_nothing().rows().into_iter();
    let rows = rows.map(|[name, value, _]| (name, value));
    rows.filter(|(_, value)| value != NONE).collect()
});

/// The configuration of which nothing is said.
fn of_nothing() -> Config {
    let matches = ArgMatches::default();
    let choice = Choice {
        matches: &matches,
        file: None,
    };
    let checked = Checked {
        root: Setting {
            value: None,
            origin: Origin::Default,
        },
        limits: Limits::default(),
    };
    choose(&choice, Values::default(), Values::default(), checked)
}

/// A flag whose help shows the default of its setting.
pub(super) fn shown(flag: Arg) -> Arg {
    let default = flag.get_long().and_then(|name| DEFAULTS.get(name));
    let Some(default) = default else {
        return flag;
    };
    let (help, long) = (flag.get_help().cloned(), flag.get_long_help().cloned());
    let mut flag = flag;
    if let Some(help) = help {
        flag = flag.help(format!("{help} [default: {default}]"));
    }
    if let Some(long) = long {
        flag = flag.long_help(format!("{long}\n\n[default: {default}]"));
    }
    flag
}

/// A setting as the reference shows it.
pub(crate) struct SettingDoc {
    /// Its name in the file.
    pub(crate) key: String,
    /// Its flag, with the dashes in front.
    pub(crate) flag: Option<String>,
    /// Its environment variable.
    pub(crate) variable: Option<String>,
    /// The unit of its value, the form of its value, or the values that it may have.
    pub(crate) form: String,
    pub(crate) default: Option<String>,
    pub(crate) meaning: String,
}

/// The settings that have flags, in the order of help.
pub(crate) fn setting_docs() -> Vec<SettingDoc> {
    let command = Values::augment_args(FileOption::augment_args(Command::new("serve")));
    command.get_arguments().map(doc).collect()
}

fn doc(flag: &Arg) -> SettingDoc {
    let name = flag.get_long().unwrap_or_default();
    let default = DEFAULTS.get(name).cloned();
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let meaning = match &default {
        Some(default) => help.replace(&format!(" [default: {default}]"), ""),
        None => help,
    };
    SettingDoc {
        key: name.to_owned(),
        flag: Some(format!("--{name}")),
        variable: flag.get_env().map(|it| it.to_string_lossy().into_owned()),
        form: form(flag),
        default,
        meaning,
    }
}

/// The units of values, by the names that help has for them.
const UNITS: [(&str, &str); 3] = [("MIB", "MiB"), ("SECONDS", "s"), ("COUNT", "count")];

fn form(flag: &Arg) -> String {
    let values = flag.get_possible_values();
    if !values.is_empty() && matches!(flag.get_action(), ArgAction::Set) {
        let names = values.iter().map(|value| format!("`{}`", value.get_name()));
        return names.collect::<Vec<_>>().join(", ");
    }
    let name = flag.get_value_names().and_then(|names| names.first());
    let name = name.map_or("", |name| name.as_str());
    match UNITS.iter().find(|(known, _)| *known == name) {
        Some((_, unit)) => (*unit).to_owned(),
        None => format!("`{name}`"),
    }
}

/// The limits of the file, with AWS's in force.
pub(crate) fn limit_docs() -> Vec<SettingDoc> {
    let meanings = limits::meanings().into_iter();
    let doc = |(name, meaning): (String, &str)| {
        let key = format!("limits.{name}");
        SettingDoc {
            flag: None,
            variable: None,
            form: String::new(),
            default: DEFAULTS.get(&key).cloned(),
            meaning: meaning.to_owned(),
            key,
        }
    };
    meanings.map(doc).collect()
}
