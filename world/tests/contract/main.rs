//! The contract of an execution world, stated once. Each suite is a set of functions over a [`fixture::Fixture`]; each
//! provider runs them all. What only one provider promises stands in a file of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and the line says where"
)]

mod environment;
mod executables;
mod files;
mod fixture;
mod local;
mod names;
mod refusals;
mod streams;
mod text;
mod trees;
mod uris;

/// Runs the contract against one provider: each test gets a fresh fixture, and closing it proves that nothing is left.
macro_rules! contract {
    ($provider:ident, $fixture:ty, { $($suite:ident: [$($test:ident),* $(,)?]),* $(,)? }) => {
        mod $provider {
            $(mod $suite {
                use crate::fixture::Fixture;
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let fixture = <$fixture>::open().await;
                    crate::$suite::$test(&fixture).await;
                    fixture.close().await;
                })*
            })*
        }
    };
}

/// The tests of the contract, by suite.
macro_rules! contract_for {
    ($provider:ident, $fixture:ty) => {
        contract!($provider, $fixture, {
            files: [
                a_key_is_the_same_before_and_after_creation,
                every_alias_has_one_key,
                a_dangling_link_has_the_key_of_what_it_would_create,
                parent_steps_follow_links_as_the_system_does,
                paths_that_lead_nowhere_are_refused_with_a_code,
                containment_is_judged_on_resolved_targets,
                stat_and_lstat_tell_what_is_there,
                a_version_changes_with_every_rewrite,
                a_listing_is_sorted_and_survives_a_bad_child,
                a_listing_of_no_folder_is_refused,
                what_is_not_built_says_so,
            ],
            text: [
                text_is_read_whole_and_in_pieces,
                a_byte_order_mark_is_reported,
                what_is_not_text_is_refused,
                what_is_no_regular_file_is_refused_without_waiting,
                bytes_have_an_inclusive_cap,
                a_character_split_over_reads_is_whole,
            ],
            uris: [
                a_uri_names_the_canonical_file,
                a_spelled_uri_keeps_links,
                every_legal_escaping_is_read,
                foreign_and_broken_uris_are_refused,
            ],
            names: [
                hostile_names_work_everywhere,
                hostile_names_are_listed_byte_for_byte,
            ],
            executables: [
                a_bare_name_is_found_on_the_given_path,
                candidates_that_cannot_run_are_skipped_and_told_apart,
                relative_path_entries_are_below_the_cwd,
                an_absolute_command_is_given_back,
                a_relative_command_with_a_separator_is_refused,
                an_identity_follows_the_file_and_not_its_name,
            ],
            environment: [
                a_scrubbed_child_gets_no_credential,
                a_full_child_gets_everything,
                explicit_entries_win_and_tombstones_remove,
                the_marker_is_always_there,
                the_mask_is_the_one_asked_for,
            ],
            streams: [
                piped_streams_carry_bytes_both_ways,
                given_input_is_written_and_closed,
                ignored_input_is_empty,
                input_that_nobody_reads_is_no_error,
                collected_streams_are_apart,
                a_tail_is_byte_exact,
                pages_never_split_a_character,
                a_flood_without_line_ends_never_blocks,
                a_spill_holds_the_whole_stream_and_goes_with_its_handle,
                a_spill_over_its_limit_is_discarded,
                a_stream_held_open_by_a_descendant_does_not_delay_the_end,
            ],
            trees: [
                outcomes_are_told_apart,
                the_cause_is_told_apart_from_the_outcome,
                a_process_that_ignores_sigterm_is_killed,
                a_stopped_process_is_ended,
                background_members_end_with_their_leader,
                a_session_of_its_own_does_not_escape,
                an_orphan_in_its_own_session_does_not_escape,
                survivors_of_the_leader_are_waited_for_and_ended,
                survivors_that_end_by_themselves_are_noticed,
                a_maker_of_sessions_is_outrun,
                a_zombie_in_the_group_is_no_survivor,
                terminations_join_and_can_be_repeated,
                a_cancelled_spec_ends_its_tree,
                a_dropped_handle_ends_its_tree,
                a_dropped_spawn_leaves_nothing,
                a_shutdown_ends_all_and_closes_the_door,
                one_end_leaves_other_trees_alone,
            ],
            refusals: [
                an_impossible_spec_is_refused_before_anything_runs,
                a_missing_program_is_told_from_one_that_cannot_run,
                a_missing_cwd_is_refused,
                a_confined_mode_without_a_sandbox_is_refused,
                a_cancelled_start_is_refused,
                two_live_trees_never_share_a_marker,
                a_terminal_is_not_built_yet,
            ],
        });
    };
}

contract_for!(on_local, crate::fixture::LocalFixture);
