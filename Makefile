# SPDX-License-Identifier: Apache-2.0
# make        one static binary, bin/passt, and bin/pasta as a link to it
# make run    set-up on a fresh machine, then the main job as an ordinary user
# make test   set-up, then every test
# make bench  comparison with another pasta in alternating pairs (REF=/path/to/pasta, default: the distribution's)
# make policy regenerates the seccomp programs (needs libseccomp's headers)
GO      ?= go
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
# Settings of the Go runtime that the worker's seccomp list relies on: no preemption signals (no tgkill), no periodic
# update of GOMAXPROCS, no names for mappings (no prctl).
GODEBUG_DEFAULT := asyncpreemptoff=1,updatemaxprocs=0,containermaxprocs=0,decoratemappings=0
LDFLAGS := -s -w -X runtime.godebugDefault=$(GODEBUG_DEFAULT) -X main.version=$(VERSION)
export GOFLAGS := -buildvcs=false
export GOTOOLCHAIN := local

.PHONY: all run test bench policy setup vet clean FORCE

all: bin/passt bin/pasta

bin/passt: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/passt

bin/pasta: bin/passt
	ln -sf passt $@

setup:
	./test/setup.sh

run: setup all
	./test/demo.sh

vet:
	@test -z "$$(gofmt -l cmd dataplane internal ipc isolation seccomp supervisor test worker)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...

test: setup all vet
	./test/run.sh

bench: setup all
	$(GO) run ./test/bench -ours bin/pasta $(if $(REF),-ref $(REF))

policy:
	cd seccomp/gen && CGO_ENABLED=1 $(GO) run .

clean:
	rm -rf bin
