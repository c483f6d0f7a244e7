// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// TestProgramsReadHowManyWriteWorks starts the programs of a hub, as its operator has them started, as far as
// their flags.
func TestProgramsReadHowManyWriteWorks(t *testing.T) {
	h := manifests.Hub{Name: "cluster-manager", OperatorNamespace: "open-cluster-management", OwnImage: "registry.example/capstan:1", Replicas: 1}
	h.Registration, _ = features.ResolveGates(features.HubRegistration, nil)
	h.Work, _ = features.ResolveGates(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): true})
	h.Placement, _ = features.ResolveGates(features.HubPlacement, map[string]bool{string(features.Propagation): true})
	h.SharedWorkBytesMax = "4Gi"
	rooms := map[string]workRoom{}
	for _, args := range commandLines(t, h) {
		command, flags, err := newRootCommand(args[0]).Find(args[1:])
		if err != nil {
			t.Fatal(err)
		}
		if err := command.ParseFlags(flags); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if command.Flags().Lookup(workWritersFlag) == nil {
			continue
		}
		shared, _ := command.Flags().GetString(sharedWorkBytesFlag)
		writers, _ := command.Flags().GetInt64(workWritersFlag)
		rooms[path.Base(args[0])] = workRoom{shared: shared, writers: writers}
	}
	if len(rooms) != 2 {
		t.Errorf("%v write works, want two programs", rooms)
	}
	for program, room := range rooms {
		if shared, err := room.parse(); err != nil || shared != 4<<30 || room.writers != 2 {
			t.Errorf("%s has its part of %d bytes as one of %d (%v)", program, shared, room.writers, err)
		}
	}
}

// commandLines returns those of the programs of a hub.
func commandLines(t *testing.T, h manifests.Hub) (all [][]string) {
	t.Helper()
	for _, object := range manifests.ComponentDeployments(h) {
		u, err := render.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		text, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		deployment := &appsv1.Deployment{}
		if err := json.Unmarshal(text, deployment); err != nil {
			t.Fatal(err)
		}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			all = append(all, append(container.Command, container.Args...))
		}
	}
	return all
}

// TestHowManyWriteWorksIsChecked is about what cannot be: to divide by it would end the program later.
func TestHowManyWriteWorksIsChecked(t *testing.T) {
	for writers, right := range map[int64]bool{-1: false, 0: false, 1: true, 2: true, 1000: false} {
		room := workRoom{shared: "1Gi", writers: writers}
		if _, err := room.parse(); (err == nil) != right {
			t.Errorf("%d programs: %v", writers, err)
		}
	}
}
