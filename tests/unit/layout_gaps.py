"""The modules of the packages that do not mirror yet: those without a file of unit tests, by package and with the reason."""

from __future__ import annotations

# Only gets shorter.
REASONS = {
    "adaptors": "Real systems try them: the contract of adaptors and tests/services. Unit tests stand by system.",
    "cli": "Commands are run as programs: tests/acceptance.",
    "client": "Tests of the door stand by part (test_queue, test_documents, test_journal, …), over a directory and over HTTP.",
    "core": "Definitions, which the tests of everything else use.",
    "server": "Handlers are tested through the application by what they answer (test_hot_*, test_roles); the tour by an acceptance test.",
    "testing": "Suites and fakes that are tests themselves: tests/contract runs them over every engine.",
    "wire": "Definitions and codecs, which the tests of operations, doors and server use.",
}
MODULES = {
    "adaptors": """
        converting_writer file/adaptor file/csv_columns file/csv_reader file/folder file/formats file/json_lines
        file/line_writer file/parquet_columns file/parquet_reader file/standard_output file/store file/target
        headwater/adaptor headwater/address headwater/connection headwater/formats headwater/server
        headwater/stored_reader http/adaptor journal/adaptor journal/events kafka/adaptor kafka/connection kafka/sink
        kafka/source mongodb/adaptor mongodb/connection mongodb/oplog mongodb/owner mongodb/source mysql/adaptor
        mysql/binlog_stream mysql/charsets mysql/columns mysql/connection mysql/followed_table mysql/position mysql/rows
        mysql/sink mysql/source mysql/sql mysql/tail mysql/unlogged opensearch/adaptor opensearch/client
        opensearch/owner opensearch/source opensearch/versions owner_note parts/ownership parts/probe_file parts/store
        postgres/adaptor postgres/columns postgres/connection postgres/copy_out postgres/pgoutput postgres/publication
        postgres/rows postgres/sink postgres/slot postgres/source postgres/sql postgres/stream postgres/table_watch
        postgres/tables postgres/tail postgres/writers queue/notes rabbitmq/adaptor rabbitmq/connection rabbitmq/sink
        rabbitmq/source s3/adaptor s3/connection s3/sink s3/source s3/store spark/adaptor spark/connection spark/source
        spark/store sql/adaptor sql/deadline sql/row_shape sql/session sql/state sql/statements sql/writer
        sqlite/adaptor sqlite/session sqlite/tables
    """,
    "cli": """
        app command completion config doc doc_care doc_export doc_options doc_reading doc_schemas doc_templates
        doc_writing doctor doctor_queues finding journal journal_appending journal_care journal_changing journal_ciphers
        journal_looking journal_options journal_projection journal_reading journal_replicating journal_snapshots
        journal_transferring log log_appending log_care log_claims log_topics options pipeline pipeline_changing
        pipeline_looking pipeline_options pipeline_sending queue queue_claiming queue_dead queue_looking queue_making
        queue_options queue_working serve spark_probe usage version wal wal_changing wal_looking wal_options
    """,
    "client": """
        backend blocking claim_waits collection_indexes collection_schema collection_views dead_calls document_care
        document_changes document_indexing document_loops document_reads document_resource document_schemas
        document_templates document_value document_viewing documents_performer http_pool http_protocol index_templates
        job journal_follow journal_projections journal_topics journals local_backend log_performer
        projection_runner put_batch queue_claim queue_performer queue_process queue_running remote_backend
        snapshot_performer wal_events wal_performer
    """,
    "core": """
        document_errors ids memory settings
    """,
    "server": """
        companion handlers http_server log_handlers openapi pass_on problem process queue_crew queue_handlers spawned
        tls_listener tour/appends tour/crash_chapter tour/document_chapter tour/journal_chapter tour/journal_load
        tour/pipeline_chapter tour/queue_chapter tour/queue_load tour/report tour/tour tour/volume tour/wal_chapter
        tour/wal_load wal_handlers
    """,
    "testing": """
        adaptor_contract adaptor_ground app app_events clock cluster_contract document_cases document_cases_changes
        document_cases_ground document_cases_more document_cases_queries document_cases_verbs document_history
        document_model document_store_contract document_store_ground document_store_indexes document_store_splits faults
        filter_samples journal_cases journal_cases_basics journal_cases_cache journal_cases_decided journal_cases_ground
        journal_cases_replicator journal_cases_store journal_grown_ring_contract journal_model journal_ring_contract
        journal_store_actions journal_store_contract journal_store_ground journal_store_splits journal_walk
        key_store_contract log_appending log_claiming log_contract log_fencing log_ground log_guarding log_keeping
        log_keys log_lifetimes log_model log_owning log_reading log_scattered log_topics log_types log_waiting
        queue_after queue_contract queue_ground queue_large_rows queue_model queue_model_after queue_model_cron
        queue_model_rate queue_model_unique queue_owning queue_program queue_results scripted sockets
        sqlite_faults store_contract store_ground wal_contract wal_ground wal_history wal_model wal_surviving
    """,
    "wire": """
        json line_owners operation part progress request
    """,
}
