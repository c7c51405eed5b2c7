use std::fmt::Write as _;

use expect_test::expect;

use super::{Bench, ask, code, run, rust_bench};
use crate::query::{QueryContext, RunningRoot, prepare};
use crate::registry::Registry;

#[tokio::test]
async fn an_instance_that_runs_is_joined_in_its_own_spelling_and_without_a_program() {
    let bench = rust_bench();
    let alias = bench.link(&bench.path("work/p"), "work/alias");
    let mut context = bench.context();
    context.environment.remove("PATH");
    let request = ask(bench.path("work/p/src/main.rs"));
    assert_eq!(
        code(run(&bench, &context, &request).await),
        "LSP_UNAVAILABLE"
    );
    let target = bench.world.fs().resolve(&alias, &alias).await.unwrap();
    let running = RunningRoot {
        server: "rust-analyzer".into(),
        root_key: target.key().clone(),
        root_path: alias.clone(),
        root_uri: format!("file://{}/", alias.display()),
    };

    let prepared = prepare(
        &bench.world,
        &Registry::builtin(),
        &context,
        &request,
        std::slice::from_ref(&running),
    )
    .await
    .unwrap();

    assert_eq!(prepared.root_uri, running.root_uri);
    assert_eq!(
        prepared.file_uri,
        format!("file://{}/src/main.rs", alias.display())
    );
    assert!(prepared.launch.is_none());
}

#[tokio::test]
async fn a_running_server_of_the_language_is_preferred_to_a_better_one() {
    let bench = Bench::new();
    bench.program("bin/pyright-langserver");
    bench.program("bin/basedpyright-langserver");
    bench.write("work/p/pyproject.toml", "");
    let file = bench.write("work/p/a.py", "a = 1\n");
    let registry = Registry::builtin();
    let context = bench.context();
    let cold = prepare(&bench.world, &registry, &context, &ask(&file), &[])
        .await
        .unwrap();
    assert_eq!(cold.definition.id, "pyright");
    let running = RunningRoot {
        server: "basedpyright".into(),
        root_key: cold.root_key,
        root_path: cold.root_path,
        root_uri: cold.root_uri,
    };

    let warm = prepare(&bench.world, &registry, &context, &ask(&file), &[running])
        .await
        .unwrap();

    assert_eq!(warm.definition.id, "basedpyright");
}

#[tokio::test]
async fn nothing_from_inside_the_root_is_started() {
    let bench = rust_bench();
    std::fs::remove_file(bench.path("bin/rust-analyzer")).unwrap();
    let inside = bench.program("work/p/tools/rust-analyzer");
    let linked = bench.path("bin/rust-analyzer");
    let request = ask(bench.path("work/p/src/main.rs"));
    let mut context = bench.context();

    // Given a PATH that leads into the root, by name, relatively, or through a link.
    for path in [
        inside.parent().unwrap().to_str().unwrap().to_owned(),
        "p/tools".into(),
        String::new(),
    ] {
        context.environment.set("PATH", path.clone());
        context.cwd = bench.path("work");
        assert_eq!(
            code(run(&bench, &context, &request).await),
            "LSP_UNAVAILABLE",
            "PATH={path}"
        );
    }
    bench.link(&inside, "bin/rust-analyzer");
    context.environment.set("PATH", linked.parent().unwrap());
    let error = run(&bench, &context, &request).await.unwrap_err();
    assert_eq!(
        error.data.unwrap().detail.unwrap()["servers"][0]["reason"],
        "insideWorkspace"
    );

    // Then a later PATH entry or lspool's own install is used all the same.
    let installed = bench.program("installs/rust-analyzer");
    context.installs = vec![installed.parent().unwrap().to_path_buf()];
    let prepared = run(&bench, &context, &request).await.unwrap();
    assert_eq!(prepared.launch.unwrap().argv, [installed]);
}

#[tokio::test]
async fn alternates_are_tried_in_order() {
    let bench = Bench::new();
    bench.write("bin/clangd", "not executable");
    bench.program("bin/clangd-19");
    bench.program("bin/clangd-14");
    let file = bench.write("work/c/a.c", "int a;\n");

    let prepared = run(&bench, &bench.context(), &ask(file)).await.unwrap();

    assert_eq!(
        prepared.launch.unwrap().argv,
        [
            bench.path("bin/clangd-19").into_os_string(),
            "--background-index".into()
        ]
    );
}

#[tokio::test]
async fn a_missing_server_is_named_with_the_way_to_get_it() {
    let bench = Bench::new();
    bench.write("bin/basedpyright-langserver", "not executable");
    bench.write("work/p/a.py", "a = 1\n");
    bench.write("work/p/a.xyz", "a\n");
    let mut report = String::new();
    for file in ["work/p/a.py", "work/p/a.xyz"] {
        let error = run(&bench, &bench.context(), &ask(bench.path(file)))
            .await
            .unwrap_err();
        let folder = bench.path("work");
        writeln!(
            report,
            "{}",
            error.to_string().replace(folder.to_str().unwrap(), "WORK")
        )
        .unwrap();
        let detail = error.data.unwrap().detail.unwrap();
        writeln!(report, "{}", detail["servers"]).unwrap();
    }
    expect![[r#"
        no language server for python can be started for WORK/p/a.py. pyright: `pyright-langserver` is not on PATH (install: npm install --global pyright; or pip install 'pyright[nodejs]'). basedpyright: `basedpyright-langserver` is not executable (install: pip install basedpyright; or npm install --global basedpyright)
        [{"commands":["pyright-langserver"],"id":"pyright","install":[{"command":"npm install --global pyright","manager":"npm"},{"command":"pip install 'pyright[nodejs]'","manager":"pip"}],"reason":"missing"},{"commands":["basedpyright-langserver"],"id":"basedpyright","install":[{"command":"pip install basedpyright","manager":"pip"},{"command":"npm install --global basedpyright","manager":"npm"}],"reason":"notExecutable"}]
        no language server is known for WORK/p/a.xyz; define one with `[[server]]` in config.toml
        []
    "#]].assert_eq(&report);
}

#[tokio::test]
async fn a_server_without_navigation_is_never_asked() {
    let bench = Bench::new();
    bench.program("bin/ruff");
    let file = bench.write("work/p/a.py", "a = 1\n");
    assert_eq!(
        code(run(&bench, &bench.context(), &ask(file)).await),
        "LSP_UNAVAILABLE"
    );
}

#[tokio::test]
async fn a_script_is_known_by_its_first_line() {
    let bench = Bench::new();
    bench.program("bin/pyright-langserver");
    let file = bench.write("work/p/run", "#!/usr/bin/env python3\nimport os\n");
    assert_eq!(
        run(&bench, &bench.context(), &ask(file))
            .await
            .unwrap()
            .language_id,
        "python"
    );
}

#[tokio::test]
async fn a_deno_project_is_not_for_the_typescript_server() {
    let bench = Bench::new();
    bench.program("bin/typescript-language-server");
    bench.write("work/d/.git/HEAD", "");
    bench.write("work/d/app/deno.json", "{}");
    let file = bench.write("work/d/app/a.ts", "let a\n");

    let error = run(&bench, &bench.context(), &ask(file)).await.unwrap_err();

    assert_eq!(error.stable_code(), Some("LSP_UNAVAILABLE"));
    assert_eq!(
        error.data.unwrap().detail.unwrap()["servers"][0]["reason"],
        "otherProject"
    );
}

#[tokio::test]
async fn a_document_over_the_limit_says_how_large_it_is() {
    let bench = rust_bench();
    let registry = Registry::builtin()
        .with_user(
            "[[server]]\nid = \"rust-analyzer\"\nmax_document_bytes = 12\n",
            "config.toml",
        )
        .unwrap();
    let request = ask(bench.path("work/p/src/main.rs"));
    let context = bench.context();

    let error = prepare(&bench.world, &registry, &context, &request, &[])
        .await
        .unwrap_err();
    let data = error.data.unwrap();
    assert_eq!(data.code, "LSP_DOCUMENT_TOO_LARGE");
    assert_eq!(
        data.detail.unwrap(),
        serde_json::json!({ "limit": 12, "atLeast": 13 })
    );

    bench.write("work/p/src/main.rs", "fn main() {}");
    assert!(
        prepare(&bench.world, &registry, &context, &request, &[])
            .await
            .is_ok(),
        "the limit is inclusive"
    );
}

#[tokio::test]
async fn launches_differ_by_what_the_server_would_see_differently() {
    let bench = rust_bench();
    let request = ask(bench.path("work/p/src/main.rs"));
    let launch = |context: QueryContext| {
        let (bench, request) = (&bench, &request);
        async move {
            run(bench, &context, request)
                .await
                .unwrap()
                .launch
                .unwrap()
                .facts
        }
    };
    let plain = launch(bench.context()).await;
    let with = |name: &'static str, value: &'static str| {
        let mut context = bench.context();
        context.environment.set(name, value);
        launch(context)
    };

    for (name, value) in [
        ("EDITOR", "vi"),
        ("CARGO_REGISTRY_TOKEN", "secret"),
        ("PWD", "/x"),
        ("XDG_SEAT", "0"),
    ] {
        assert_eq!(with(name, value).await.digest, plain.digest, "{name}");
    }
    for name in [
        "CARGO_HOME",
        "RUSTFLAGS",
        "https_proxy",
        "HTTPS_PROXY",
        "XDG_CACHE_HOME",
        "LC_ALL",
        "RA_LOG",
        "CC",
    ] {
        let other = with(name, "x").await;
        assert_ne!(other.digest, plain.digest, "{name}");
        assert_eq!(
            plain.first_difference(&other),
            Some(format!("variable {name}").as_str())
        );
        assert_eq!(
            other.first_difference(&plain),
            plain.first_difference(&other)
        );
    }
    assert_eq!(plain.first_difference(&plain), None);

    // When the program is replaced.
    std::fs::remove_file(bench.path("bin/rust-analyzer")).unwrap();
    std::fs::write(bench.path("bin/other"), "").unwrap();
    bench.program("bin/rust-analyzer");
    assert_eq!(
        launch(bench.context()).await.first_difference(&plain),
        Some("executable")
    );
}
