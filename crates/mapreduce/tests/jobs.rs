//! Whole jobs on a cloud without faults: each program, each format, one worker and several.

mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;

use fader_cloud::ErrorKind;
use fader_cloud::model::{Model, Profile};
use fader_mapreduce::{Codec, Definition, Format, Output, Settings, State, Worker};
use stage::{
    assert_clean, cloud, definition, lines, model, on_model, process, put, run, slow, succeeded,
    text, worker,
};

const POEM: &str = "the quick brown fox\njumps over the lazy dog\nthe end\n";

async fn poems(model: &Model) {
    put(model, "in/a.txt", POEM).await;
    put(model, "in/b/c.txt", "no end of lines here the fox").await;
    put(model, "in/empty", "").await;
}

fn counts(texts: &[&str]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for word in texts.iter().flat_map(|text| text.split_ascii_whitespace()) {
        *counts.entry(word).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(word, count)| format!("{word}\t{count}"))
        .collect()
}

#[test]
fn words_are_counted_by_any_number_of_workers() {
    for workers in [1, 2, 5] {
        for split_bytes in [1, 7, 40, 1_000_000] {
            let model = model(workers as u64);
            let executor = model.executor.clone();
            executor.run(async {
                poems(&model).await;
                let definition = Definition {
                    split_bytes,
                    codec: if workers == 2 {
                        Codec::Zstd
                    } else {
                        Codec::Lz4
                    },
                    ..definition("word-count", &[])
                };
                succeeded(&run(&model, &definition, workers).await);
                let expected = counts(&[POEM, "no end of lines here the fox"]);
                assert_eq!(
                    lines(&model),
                    expected,
                    "{workers} workers, {split_bytes} bytes"
                );
                assert_clean(&model);
            });
            executor.shut_down();
        }
    }
}

#[test]
fn success_names_parts_counters_and_requests() {
    on_model(|model| async move {
        poems(&model).await;
        let register = run(&model, &definition("word-count", &[]), 2).await;
        let cloud = cloud(&model, &process(&model, "reader"));
        let output = Output::new(cloud, Default::default());
        let success = output.success().await.expect("readable").expect("there");
        assert_eq!(success.job, register.job);
        let names: Vec<&str> = success.files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["part-00000", "part-00001", "part-00002"]);
        let counters = &success.counters;
        assert_eq!(counters["map input records"], 4);
        assert_eq!(counters["map output records"], 18);
        assert_eq!(counters["input objects"], 3);
        let records: u64 = success.files.iter().map(|file| file.records).sum();
        assert_eq!(counters["reduce output records"], records);
        assert!(success.requests["object-put"] > 6);
        assert_eq!(success.timeline[0].task, "p-00000");
        let status = output.status().await.expect("readable").expect("a job");
        assert_eq!(status.phases[2].done, 3);
    });
}

#[test]
fn an_index_names_each_object_once() {
    on_model(|model| async move {
        put(&model, "in/x", "b a b").await;
        put(&model, "in/y", "a\n").await;
        succeeded(&run(&model, &definition("inverted-index", &[]), 2).await);
        assert_eq!(lines(&model), ["a\tx\ty", "b\tx"]);
    });
}

#[test]
fn links_are_reversed() {
    on_model(|model| async move {
        put(
            &model,
            "in/d/x.html",
            "<a href='y.html#p'></a><a href=\"../z\">",
        )
        .await;
        put(&model, "in/q.html", "<a href=\"d/y.html\">").await;
        succeeded(&run(&model, &definition("reverse-links", &[]), 1).await);
        assert_eq!(lines(&model), ["d/y.html\td/x.html\tq.html", "z\td/x.html"]);
    });
}

#[test]
fn matching_lines_come_with_their_place() {
    on_model(|model| async move {
        put(&model, "in/x", "one\ntwo\nthree\n").await;
        succeeded(&run(&model, &definition("grep", &["^t"]), 1).await);
        assert_eq!(lines(&model), ["x\t4\ttwo", "x\t8\tthree"]);
    });
}

#[test]
fn sorted_lines_are_in_order_through_all_parts() {
    on_model(|model| async move {
        let mut all: Vec<String> = (0..500)
            .map(|n| format!("{:03}", n * 7919 % 1000))
            .collect();
        put(&model, "in/x", all[..300].join("\n")).await;
        put(&model, "in/y", all[300..].join("\n")).await;
        let definition = Definition {
            split_bytes: 200,
            reduces: 4,
            ..definition("sort", &[])
        };
        succeeded(&run(&model, &definition, 3).await);
        all.sort();
        let found: Vec<String> = text(&model).lines().map(str::to_owned).collect();
        assert_eq!(found, all);
        assert!(stage::parts(&model).values().all(|part| !part.is_empty()));
    });
}

#[test]
fn two_inputs_are_joined() {
    on_model(|model| async move {
        put(&model, "in/l", "1\tone\n2\ttwo\n2\tzwei\n4\tfour\n").await;
        put(&model, "other/r", "2\tdeux\n4\tquatre\n5\tcinq\n").await;
        let inputs = ["mem://in/**", "mem://other/**"]
            .map(str::to_owned)
            .to_vec();
        let definition = Definition {
            inputs,
            ..definition("join", &[])
        };
        succeeded(&run(&model, &definition, 2).await);
        assert_eq!(
            lines(&model),
            ["2\ttwo\tdeux", "2\tzwei\tdeux", "4\tfour\tquatre"]
        );
    });
}

#[test]
fn distinct_values_and_the_top_are_found() {
    on_model(|model| async move {
        put(&model, "in/x", "a\t1\na\t2\na\t1\nb\t1\n").await;
        succeeded(&run(&model, &definition("count-distinct", &[]), 2).await);
        assert_eq!(lines(&model), ["a\t2", "b\t1"]);
    });
    on_model(|model| async move {
        put(&model, "in/x", "a\t1\nb\t30\nc\t2\n").await;
        put(&model, "in/y", "d\t30\ne\t4\n").await;
        succeeded(&run(&model, &definition("top", &["3"]), 2).await);
        assert_eq!(text(&model), "b\t30\nd\t30\ne\t4\n");
    });
}

#[test]
fn fields_of_json_and_csv_are_read() {
    on_model(|model| async move {
        put(&model, "in/x", "{\"k\":\"a b\",\"n\":1}\n{\"k\":\"b\"}\n").await;
        let definition = Definition {
            format: Format::Json(vec!["k".to_owned()]),
            ..definition("word-count", &[])
        };
        succeeded(&run(&model, &definition, 1).await);
        assert_eq!(lines(&model), ["a\t1", "b\t2"]);
    });
    on_model(|model| async move {
        put(&model, "in/x", "n,k\n1,\"a\nb\"\n2,b\n").await;
        let definition = Definition {
            format: Format::Csv(vec!["k".to_owned()]),
            ..definition("word-count", &[])
        };
        succeeded(&run(&model, &definition, 1).await);
        assert_eq!(lines(&model), ["a\t1", "b\t2"]);
    });
}

#[test]
fn input_without_a_byte_gives_empty_parts() {
    on_model(|model| async move {
        put(&model, "in/x", "").await;
        succeeded(&run(&model, &definition("word-count", &[]), 1).await);
        assert_eq!(stage::parts(&model).len(), 3);
        assert_eq!(text(&model), "");
    });
}

#[test]
fn input_that_is_missing_fails_by_name() {
    on_model(|model| async move {
        let register = run(&model, &definition("word-count", &[]), 2).await;
        assert_eq!(register.state, State::Failed);
        assert!(
            register.reason.contains("mem://in/**"),
            "{}",
            register.reason
        );
        assert_clean(&model);
    });
}

#[test]
fn a_record_that_is_bad_ends_the_job_with_its_place() {
    on_model(|model| async move {
        put(&model, "in/x", "a\t1\nno number\n").await;
        let register = run(&model, &definition("top", &["3"]), 2).await;
        assert_eq!(register.state, State::Failed);
        let reason = &register.reason;
        assert!(
            reason.contains("input x") && reason.contains("byte 4"),
            "{reason}"
        );
    });
}

#[test]
fn a_complete_output_is_refused_and_another_job_too() {
    on_model(|model| async move {
        poems(&model).await;
        let cloud = cloud(&model, &process(&model, "run"));
        let output = Output::new(cloud.clone(), Default::default());
        let own = definition("word-count", &[]);
        let register = output.begin(&own).await.expect("a free output");
        let joined = output.begin(&own).await.expect("the same job");
        assert_eq!(joined, register);
        let other = definition("sort", &[]);
        let refused = output.begin(&other).await.expect_err("another job");
        assert_eq!(refused.kind, ErrorKind::Precondition);
        worker(&cloud, &register)
            .run()
            .await
            .expect("a cloud without faults");
        let refused = output.begin(&own).await.expect_err("it is complete");
        assert!(refused.context.contains("_SUCCESS"));
    });
}

#[test]
fn a_foreign_part_is_never_touched() {
    on_model(|model| async move {
        put(&model, "part-of-mine", "mine").await;
        let cloud = cloud(&model, &process(&model, "run"));
        let output = Output::new(cloud, Default::default());
        let refused = output.begin(&definition("word-count", &[])).await;
        let refused = refused.expect_err("a foreign part");
        assert!(refused.context.contains("part-of-mine"));
    });
}

/// It shows MR-2.
#[test]
fn a_cancelled_job_leaves_no_part_and_another_may_begin() {
    on_model(|model| async move {
        poems(&model).await;
        let cloud = cloud(&model, &process(&model, "run"));
        let output = Output::new(cloud.clone(), Default::default());
        let own = definition("word-count", &[]);
        let first = output.begin(&own).await.expect("a free output");
        let said = output
            .decide(&first.job, State::Cancelled, "")
            .await
            .expect("it runs");
        assert_eq!(said.state, State::Cancelled);
        let ended = worker(&cloud, &first)
            .run()
            .await
            .expect("a cloud without faults");
        assert_eq!(ended.state, State::Cancelled);
        assert!(stage::parts(&model).is_empty());
        let second = output.begin(&own).await.expect("the first is over");
        assert_eq!(second.former, [first.job]);
        succeeded(
            &worker(&cloud, &second)
                .run()
                .await
                .expect("a cloud without faults"),
        );
        output.clean().await.expect("a cloud without faults");
        assert_clean(&model);
    });
}

#[test]
fn a_later_job_reads_only_what_success_names() {
    on_model(|model| async move {
        poems(&model).await;
        succeeded(&run(&model, &definition("word-count", &[]), 1).await);
        // The output becomes the input of another one.
        for (key, body) in stage::parts(&model) {
            put(&model, &format!("in2/{key}"), body).await;
        }
        let success = model.object("_SUCCESS").expect("complete").to_vec();
        put(&model, "in2/_SUCCESS", success).await;
        put(&model, "in2/part-99999", "stray\t1000\n").await;
        for key in stage::parts(&model)
            .into_keys()
            .chain(["_SUCCESS".to_owned()])
        {
            use object_store::ObjectStoreExt;
            let path = object_store::path::Path::from(key);
            model
                .objects
                .delete(&path)
                .await
                .expect("a cloud without faults");
        }
        put(&model, "_fader/job", "").await;
        let path = object_store::path::Path::from("_fader/job");
        use object_store::ObjectStoreExt;
        model
            .objects
            .delete(&path)
            .await
            .expect("a cloud without faults");
        let definition = Definition {
            inputs: vec!["mem://in2/**".to_owned()],
            ..definition("top", &["1"])
        };
        succeeded(&run(&model, &definition, 1).await);
        assert_eq!(text(&model), "the\t4\n");
    });
}

/// A file of one column of text, in row groups of so many rows.
fn parquet(rows: &[&str], group_rows: usize) -> Vec<u8> {
    use parquet::column::writer::ColumnWriter;
    use parquet::data_type::ByteArray;
    use parquet::file::writer::SerializedFileWriter;
    let schema = "message rows { required int32 n; required binary text (UTF8); }";
    let schema = parquet::schema::parser::parse_message_type(schema).expect("a schema");
    let mut out = Vec::new();
    let writer = SerializedFileWriter::new(&mut out, schema.into(), Default::default());
    let mut writer = writer.expect("a writer");
    for rows in rows.chunks(group_rows) {
        let mut group = writer.next_row_group().expect("a group");
        while let Some(mut column) = group.next_column().expect("a column") {
            let written = match column.untyped() {
                ColumnWriter::Int32ColumnWriter(typed) => {
                    let numbers: Vec<i32> = (0..rows.len() as i32).collect();
                    typed.write_batch(&numbers, None, None)
                }
                ColumnWriter::ByteArrayColumnWriter(typed) => {
                    let texts: Vec<ByteArray> = rows.iter().map(|row| (*row).into()).collect();
                    typed.write_batch(&texts, None, None)
                }
                _ => unreachable!("the schema has two types"),
            };
            written.expect("values");
            column.close().expect("a column");
        }
        group.close().expect("a group");
    }
    writer.close().expect("a file");
    out
}

#[test]
fn rows_of_parquet_are_lines_of_the_columns_that_were_asked_for() {
    let rows: Vec<String> = (0..90).map(|n| format!("word{} the", n * 7 % 90)).collect();
    for (split_bytes, group_rows) in [(100, 1), (1_000, 13), (1 << 20, 7), (300, 1_000)] {
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let file = parquet(&rows, group_rows);
        let model = model(1);
        let executor = model.executor.clone();
        executor.run(async {
            put(&model, "in/a.parquet", file).await;
            put(&model, "in/b.parquet", parquet(&["the end"], 1)).await;
            let definition = Definition {
                format: Format::Parquet(vec!["text".to_owned()]),
                split_bytes,
                ..definition("word-count", &[])
            };
            succeeded(&run(&model, &definition, 2).await);
            let texts: Vec<&str> = rows.iter().copied().chain(["the end"]).collect();
            assert_eq!(
                lines(&model),
                counts(&texts),
                "splits of {split_bytes} bytes"
            );
            assert_clean(&model);
        });
        executor.shut_down();
    }
}

#[test]
fn rows_of_parquet_are_sorted_through_all_parts() {
    on_model(|model| async move {
        let rows: Vec<String> = (0..400).map(|n| format!("{:03}", n * 7 % 400)).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        put(&model, "in/a.parquet", parquet(&rows, 50)).await;
        let definition = Definition {
            format: Format::Parquet(vec!["text".to_owned()]),
            split_bytes: 1_000,
            ..definition("sort", &[])
        };
        succeeded(&run(&model, &definition, 1).await);
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        assert_eq!(text(&model).lines().collect::<Vec<_>>(), sorted);
        let sizes = stage::parts(&model).into_values().map(|part| part.len());
        assert!(sizes.min() > Some(200), "ranges are of a sample of rows");
    });
}

#[test]
fn damaged_parquet_fails_the_job_by_object_and_row_group() {
    on_model(|model| async move {
        let rows = vec!["the quick brown fox"; 60];
        let mut file = parquet(&rows, 20);
        // Within the second row group: its pages have sums.
        let middle = file.len() / 3;
        file[middle..middle + 60].fill(0xFF);
        put(&model, "in/a.parquet", file).await;
        let definition = Definition {
            format: Format::Parquet(Vec::new()),
            split_bytes: 1 << 20,
            ..definition("word-count", &[])
        };
        let register = run(&model, &definition, 1).await;
        assert_eq!(register.state, State::Failed);
        let reason = &register.reason;
        assert!(reason.contains("input a.parquet: row group "), "{reason}");
    });
}

/// A folder of a cloud, as a place of jobs.
#[derive(Clone, Debug)]
struct Below(fader_cloud::Cloud, &'static str);

impl fader_cloud::Metered for Below {
    fn services(&self, meter: &fader_cloud::Meter) -> fader_cloud::Services {
        let services = self.0.metered(meter);
        let objects = object_store::prefix::PrefixStore::new(services.objects, self.1);
        fader_cloud::Services {
            objects: std::sync::Arc::new(objects),
            ..services
        }
    }
}

#[async_trait::async_trait]
impl fader_mapreduce::Places for Below {
    async fn open(&self, url: &str) -> fader_cloud::Result<fader_cloud::Cloud> {
        assert_eq!(url, "mem://elsewhere");
        let (runtime, meter) = (self.0.runtime.clone(), self.0.meter.clone());
        let metered = std::sync::Arc::new(self.clone());
        Ok(fader_cloud::Cloud::new(metered, runtime, meter))
    }
}

#[test]
fn a_job_keeps_its_objects_where_its_register_says() {
    let model = slow(Profile::default());
    let executor = model.executor.clone();
    executor.run(async {
        poems(&model).await;
        let definition = Definition {
            work: Some("mem://elsewhere".to_owned()),
            ..definition("word-count", &[])
        };
        let first = cloud(&model, &process(&model, "run"));
        let places = Below(first.clone(), "work");
        let output = Output::new(first.clone(), Default::default()).with_places(Arc::new(places));
        let register = output.begin(&definition).await.expect("a free output");
        let placed = output.of_job(&register, &register.job).await;
        let tools = stage::tools(&first);
        let own = Worker::new(
            placed.expect("it opens"),
            register.clone(),
            tools,
            Settings::default(),
        );
        let own = own.expect("a known program");
        own.submit().await.expect("a cloud without faults");
        let running = first.runtime.spawn(async move { own.run().await });
        let mut seen = std::collections::BTreeSet::new();
        while !output.is_complete().await.expect("readable") {
            seen.extend(model.object_keys());
            first
                .runtime
                .clock
                .sleep(std::time::Duration::from_millis(5))
                .await;
        }
        let ended = running.await.expect("it lives");
        succeeded(&ended.expect("a cloud without faults"));
        let own = |below: &str| {
            let below = format!("{below}_fader/{}/", register.job);
            seen.iter().filter(|key| key.starts_with(&below)).count()
        };
        assert!(0 < own("work/") && own("") == 0, "{seen:?}");
        assert_eq!(
            lines(&model),
            counts(&[POEM, "no end of lines here the fox"])
        );
        assert_clean(&model);
    });
    executor.shut_down();
}

#[test]
fn places_of_former_jobs_are_cleaned_when_the_next_job_has_another() {
    on_model(|model| async move {
        poems(&model).await;
        let first = cloud(&model, &process(&model, "run"));
        let output = Output::new(first.clone(), Default::default());
        let elsewhere = Definition {
            work: Some("mem://elsewhere".to_owned()),
            ..definition("word-count", &[])
        };
        let former = output.begin(&elsewhere).await.expect("a free output").job;
        let left = format!("work/_fader/{former}/m-00000/late/0");
        put(&model, &left, "a late write").await;
        let cancelled = output.decide(&former, State::Cancelled, "").await;
        assert_eq!(cancelled.expect("it runs").state, State::Cancelled);
        let next = output
            .begin(&definition("sort", &[]))
            .await
            .expect("a free output");
        assert_eq!(next.works[&former], "mem://elsewhere");
        let refused = output.clean().await.expect_err("the place is unknown");
        assert_eq!(refused.kind, ErrorKind::Invalid);
        let places = std::sync::Arc::new(Below(first.clone(), "work"));
        let cleaned = output.with_places(places).clean().await.expect("it opens");
        assert_eq!(cleaned.objects, 1);
        assert!(!model.object_keys().contains(&left));
    });
}
