// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/base64"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

const (
	fieldData       = "data"
	fieldStringData = "stringData"
)

// normalizeContent rewrites what of a manifest the API server stores in another place than
// where the manifest has it, and takes out what a controller of the cluster writes in any
// case. A field manager owns a field where it was applied: what is taken out of the
// manifest later would stay where it was stored.
func normalizeContent(content map[string]any) {
	switch {
	case isSecret(content):
		foldStringData(content)
	case IsAggregated(content):
		delete(content, "rules")
	default:
		nameServiceAccount(podSpec(content))
	}
}

// IsAggregated reports whether content is a ClusterRole whose rules a controller of the
// cluster collects from other roles: those of a manifest are of another cluster, or none.
func IsAggregated(content map[string]any) bool {
	return content["apiVersion"] == rbacv1.SchemeGroupVersion.String() && content["kind"] == "ClusterRole" && content["aggregationRule"] != nil
}

func isSecret(content map[string]any) bool {
	return content["apiVersion"] == "v1" && content["kind"] == "Secret"
}

// foldStringData moves what a Secret has in stringData to data, encoded and in place of
// what is there, as the API server does. What is malformed stays: the API server says why.
func foldStringData(content map[string]any) {
	texts, isMap := content[fieldStringData].(map[string]any)
	data, hasData := content[fieldData].(map[string]any)
	if !isMap || !hasData && content[fieldData] != nil {
		return
	}
	folded := make(map[string]any, len(data)+len(texts))
	for key, value := range data {
		folded[key] = value
	}
	for key, value := range texts {
		text, isText := value.(string)
		if !isText && value != nil {
			return
		}
		folded[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(content, fieldStringData)
	if len(folded) > 0 {
		content[fieldData] = folded
	}
}

// nameServiceAccount names the account of pods in both fields that the API has for it, as
// the API server does. If either were in the cluster only, it would bring back the other
// when that leaves the manifest.
func nameServiceAccount(spec map[string]any) {
	name, _ := spec["serviceAccountName"].(string)
	if name == "" {
		name, _ = spec["serviceAccount"].(string)
	}
	if name != "" {
		spec["serviceAccountName"], spec["serviceAccount"] = name, name
	}
}

// podSpec returns the spec of the pods of an object of a built-in kind, nil if it has none.
func podSpec(content map[string]any) map[string]any {
	var path []string
	switch fmt.Sprint(content["apiVersion"], " ", content["kind"]) {
	case "v1 Pod":
		path = []string{"spec"}
	case "v1 ReplicationController", "apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "apps/v1 ReplicaSet", "batch/v1 Job":
		path = []string{"spec", "template", "spec"}
	case "v1 PodTemplate":
		path = []string{"template", "spec"}
	case "batch/v1 CronJob":
		path = []string{"spec", "jobTemplate", "spec", "template", "spec"}
	default:
		return nil
	}
	for _, name := range path {
		content, _ = content[name].(map[string]any)
	}
	return content
}

// SelectableContent returns the content of a manifest for expressions that select fields in it:
// what normalizing moves is in both places. It waits for room and fails as NormalizedContent does.
func SelectableContent(ctx context.Context, raw []byte) (map[string]any, error) {
	content, err := NormalizedContent(ctx, raw)
	if err != nil || !isSecret(content) {
		return content, err
	}
	written, err := decodeManifest(ctx, raw)
	if texts, has := written[fieldStringData]; has {
		content[fieldStringData] = texts
	}
	return content, err
}

// StoredPaths returns where the fields at the paths are that an expression selected in what
// Selectable returns.
func StoredPaths(content map[string]any, paths []ignore.Path) []ignore.Path {
	if !isSecret(content) {
		return paths
	}
	var stored []ignore.Path
	for _, path := range paths {
		switch {
		case path[0] != fieldStringData:
			stored = append(stored, path)
		case len(path) > 1:
			stored = append(stored, ignore.Path{fieldData, path[1]})
		default:
			texts, _ := content[fieldStringData].(map[string]any)
			for key := range texts {
				stored = append(stored, ignore.Path{fieldData, key})
			}
		}
	}
	return ignore.MinimalPaths(stored)
}
