##@ Benchmarks

BENCH_MEMBERS ?= 1,10,50

.PHONY: bench-join
bench-join: build lab-build ## Seconds from agent start to Available, for BENCH_MEMBERS members. Needs root.
	go run ./test/bench join --members $(BENCH_MEMBERS)

.PHONY: bench-idle
bench-idle: build lab-build ## Requests, CPU and memory when nothing happens, for BENCH_MEMBERS members. Needs root.
	go run ./test/bench idle --members $(BENCH_MEMBERS)

.PHONY: bench-accept
bench-accept: build lab-build ## Seconds to accept 1,000 clusters, beside the same number of plain writes. Needs root.
	go run ./test/bench accept --clusters 1000

BENCH_PUSH ?= 100

.PHONY: bench-push
bench-push: build lab-build ## Memory, requests and restart of one push agent for BENCH_PUSH Push clusters. Needs root.
	go run ./test/bench push --members $(BENCH_PUSH)

BENCH_RUNS ?= 5
BENCH_SCENARIOS ?= change,drift,feedback,fairness,ten,thousand,fanout,memory
BENCH_LIMIT ?= 7m

.PHONY: bench-work
bench-work: build lab-build ## How fast works are delivered, changed, mended and deleted, beside plain writes. Needs root.
	go run ./test/bench work --runs $(BENCH_RUNS) --limit $(BENCH_LIMIT) --scenarios $(BENCH_SCENARIOS)

BENCH_PLACEMENT_SCENARIOS ?= engine,one,replicas,thousand,flip,large

.PHONY: bench-placement
bench-placement: build lab-build ## How fast placements choose clusters, beside plain writes, and what it costs. Needs root.
	go run ./test/bench placement --runs $(BENCH_RUNS) --limit $(BENCH_LIMIT) --scenarios $(BENCH_PLACEMENT_SCENARIOS)

BENCH_PROPAGATE_SCENARIOS ?= change,move,deploy,events,decide,restart
BENCH_DEPLOYMENTS ?= 100,500
BENCH_BINDINGS ?= 5000

.PHONY: bench-propagate
bench-propagate: build lab-build ## How fast policies send objects to clusters, beside ready-made works and plain writes. Needs root.
	go run ./test/bench propagate --runs $(BENCH_RUNS) --limit $(BENCH_LIMIT) --scenarios $(BENCH_PROPAGATE_SCENARIOS) \
	  --deployments $(BENCH_DEPLOYMENTS) --bindings $(BENCH_BINDINGS)

.PHONY: bench-dedicated
bench-dedicated: image lab-build ## Processes, memory, CPU and writes of an idle dedicated hub, beside those of its bare parts. Needs root.
	IMAGE_NAME=$(IMAGE_NAME) go run ./test/bench dedicated

.PHONY: bench-clusters
bench-clusters: envtest-assets ## Lists and watches of 10,000 Clusters, beside those of their ClusterConnections.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -run '^$$' -bench BenchmarkClusters -benchtime 15x -timeout 20m ./internal/apiserver

.PHONY: bench-interpret
bench-interpret: ## What a customized kind costs agents and the hub, beside a native one.
	go test -run '^$$' -bench BenchmarkStatus -benchtime 20000x -count $(BENCH_RUNS) ./internal/interpret/customized
