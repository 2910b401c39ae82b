//! Precedence, origins and refusals.

use clap::{Args, Command, FromArgMatches};

use super::table::NONE;
use super::{Config, FileOption, Values, limit_docs, parse, resolve, setting_docs};

fn config(file: Option<&str>, flags: &[&str]) -> anyhow::Result<Config> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("fader.toml");
    if let Some(text) = file {
        std::fs::write(&path, text)?;
    }
    let command = Values::augment_args(Command::new("serve"));
    let matches = command.try_get_matches_from(std::iter::once(&"serve").chain(flags))?;
    let given = Values::from_arg_matches(&matches)?;
    let file = FileOption {
        config: file.map(|_| path),
    };
    resolve(&file, given, &matches)
}

fn refusal(file: Option<&str>, flags: &[&str]) -> String {
    format!("{:#}", config(file, flags).unwrap_err())
}

#[test]
fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
    let file = "cache-mb = 128\ndurability = \"os\"\n[limits]\nitem-pairs = 512\n";
    let table = config(Some(file), &["--cache-mb", "256"]).unwrap().table();
    let row = |name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace()
            .take(3)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(row("cache-mb"), "cache-mb 256 flag");
    assert_eq!(row("durability"), "durability os file");
    assert_eq!(row("listen"), "listen 127.0.0.1:4566 default");
    assert_eq!(row("limits.item-pairs"), "limits.item-pairs 512 file");
    assert_eq!(row("limits.page-items "), "limits.page-items 2500 default");
}

/// Help has the default of each setting once, as the configuration in force has it.
#[test]
fn help_and_the_reference_show_the_defaults_in_force() {
    let rows = config(None, &[]).unwrap().rows();
    let mut command = Values::augment_args(Command::new("serve"));
    let help = command.render_long_help().to_string();
    let of_flags = rows.iter().filter(|[name, value, _]| {
        value != NONE && !name.starts_with("limits.") && !name.starts_with("root.")
    });
    let shown = of_flags.map(|[name, value, _]| {
        let at = help.find(&format!("--{name} <"));
        let at = at.or_else(|| help.find(&format!("--{name}[")));
        let rest = &help[at.unwrap_or_else(|| panic!("no --{name}"))..];
        let end = rest[2..].find("      --").unwrap_or(rest.len() - 2) + 2;
        let words: Vec<&str> = rest[..end].split_whitespace().collect();
        let default = format!("[default: {value}]");
        assert_eq!(words.join(" ").matches("[default:").count(), 1, "{name}");
        assert!(words.join(" ").contains(&default), "{name} lacks {default}");
    });
    assert_eq!(shown.count(), help.matches("[default:").count());
    for it in setting_docs().into_iter().chain(limit_docs()) {
        let row = rows.iter().find(|[name, ..]| *name == it.key);
        let value = row.map_or(NONE, |[_, value, _]| value);
        assert_eq!(it.default.as_deref().unwrap_or(NONE), value, "{}", it.key);
        assert!(!it.meaning.contains("[default"), "{}", it.key);
    }
}

#[test]
fn a_limit_is_read_shown_and_refused_when_it_makes_no_sense() {
    assert_eq!(config(None, &[]).unwrap().limit.value, None);
    let file = "limit = \"gets=32+200,work=20ms\"";
    let filed = config(Some(file), &[]).unwrap();
    assert!(filed.table().contains("gets=32+200,work=20ms"));
    let flags = ["--limit", "gets=1300/s,puts=75/s,latency=113ms"];
    let table = config(Some(file), &flags).unwrap().table();
    let row = table
        .lines()
        .find(|line| line.starts_with("limit "))
        .unwrap();
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        row,
        [
            "limit",
            "gets=1300/s+130,puts=75/s+7.5,latency=113ms",
            "flag"
        ]
    );
    assert!(refusal(Some("limit = \"gets=fast\""), &[]).contains("gets=fast"));
    assert!(refusal(None, &["--limit", "gets=fast"]).contains("gets=fast"));
}

#[test]
fn secrets_are_not_shown() {
    let file = "[root]\naccess-key = \"AKIDEXAMPLE0000000\"\nsecret-key = \"do-not-show\"\n";
    let config = config(Some(file), &[]).unwrap();
    assert!(config.table().contains("AKIDEXAMPLE0000000"));
    assert!(!config.table().contains("do-not-show"));
    assert!(!format!("{config:?}").contains("do-not-show"));
}

#[test]
fn mistakes_in_the_file_are_named_without_a_quote() {
    let error = refusal(
        Some("[root]\nsecret-key = \"hidden\"\nsecretkey = 1\n"),
        &[],
    );
    assert!(
        error.contains("line 3") && error.contains("secretkey"),
        "{error}"
    );
    let error = refusal(Some("[root]\nsecret-key = \"hidden\n"), &[]);
    assert!(
        error.contains("line 2") && !error.contains("hidden"),
        "{error}"
    );
    let error = refusal(Some("[root]\nsecret-key = 123456789\n"), &[]);
    assert!(
        error.contains("quotation marks") && !error.contains("1234"),
        "{error}"
    );
    assert!(parse("").is_ok());
}

#[test]
fn contradictions_are_refused() {
    for (file, flags, reason) in [
        (None, &["--tls-key", "k"][..], "go together"),
        (None, &["--anonymous", "--listen", "0.0.0.0:1"], "loopback"),
        (None, &["--cache-mb", "0"], "cache-mb"),
        (Some("[root]\naccess-key = \"A\"\n"), &[], "needs both"),
        (
            Some("[root]\naccess-key = \"A\"\nsecret-key = \"\"\n"),
            &[],
            "fewer than 8",
        ),
        (
            Some("[root]\naccess-key = \"A\"\nsecret-key = \"1234567\"\n"),
            &[],
            "fewer than 8",
        ),
        (Some("[limits]\nitem-pairs = 10\n"), &[], "only be raised"),
        (
            Some("[limits]\nitem-paris = 1000\n"),
            &[],
            "knows no `item-paris`",
        ),
    ] {
        let error = refusal(file, flags);
        assert!(error.contains(reason), "{error}");
    }
    assert!(config(None, &["--anonymous", "--listen", "[::1]:1"]).is_ok());
}

#[test]
fn listening_to_the_world_without_tls_warns() {
    let warnings = config(None, &["--listen", "0.0.0.0:1"]).unwrap().warnings;
    assert!(warnings[0].contains("without TLS"), "{warnings:?}");
    let flags = [
        "--listen",
        "0.0.0.0:1",
        "--tls-certificate",
        "c",
        "--tls-key",
        "k",
    ];
    assert_eq!(config(None, &flags).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn a_file_with_a_secret_that_all_can_read_warns() {
    let file = "[root]\naccess-key = \"A\"\nsecret-key = \"12345678\"\n";
    let warnings = config(Some(file), &[]).unwrap().warnings;
    assert!(warnings[0].contains("chmod 600"), "{warnings:?}");
}

#[test]
fn a_member_speaks_what_this_binary_can_and_is_filled_at_a_rate() {
    let member = [
        "--node=n1",
        "--peer-listen=127.0.0.1:4570",
        "--zookeeper=zk1",
        "--cluster-key=key",
    ];
    let with = |more: &[&'static str]| [&member, more].concat();
    let chosen = config(
        Some("cluster-version-max = 2"),
        &with(&["--transfer-mb", "8"]),
    )
    .unwrap();
    let chosen = chosen.membership.member().unwrap().unwrap();
    assert_eq!(
        (chosen.cluster_version_max.0, chosen.transfer_rate),
        (2, 8 << 20)
    );
    for (flags, why) in [
        (["--cluster-version-max", "10"], "supports versions 2 to 9"),
        (["--cluster-version-max", "1"], "supports versions 2 to 9"),
        (["--transfer-mb", "0"], "transfer-mb is 1 to"),
    ] {
        assert!(refusal(None, &with(&flags)).contains(why), "{flags:?}");
    }
}

#[test]
fn options_of_blocks_are_read_and_refused_when_they_make_no_sense() {
    let flags = ["--block-memory-mb", "64", "--upload-lease-s", "60"];
    let chosen = config(Some("scrub-mb = 0\ngarbage-wait-s = 1"), &flags).unwrap();
    let options = chosen.blocks.options();
    assert_eq!(options.memory_bytes, 64 << 20);
    assert_eq!(options.scrub_bytes_per_second, 0);
    assert_eq!(options.reserve_bytes, 1 << 30);
    assert_eq!(options.garbage_wait.as_secs(), 1);
    assert_eq!(chosen.limits.blocks.lease_ms, 60_000);
    for (flags, words) in [
        (["--block-memory-mb", "15"], "block-memory-mb is 16 to"),
        (["--upload-lease-s", "0"], "upload-lease-s is 1 to"),
        (["--scrub-mb", "1048577"], "scrub-mb is at most"),
    ] {
        let refused = refusal(None, &flags);
        assert!(refused.contains(words), "{refused}");
    }
}
