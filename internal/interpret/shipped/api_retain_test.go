// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"maps"
	"testing"

	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// retentionRow is what stays of an object in a cluster when another one is to be applied there.
type retentionRow struct{ kind, desired, observed, applied string }

func (r retentionRow) of() string { return r.kind }

func TestRetentionIsThatOfTheAPI(t *testing.T) {
	t.Parallel()
	rows := map[string]retentionRow{
		"the controller of a Workflow has its status": {"Workflow", `spec: {entrypoint: a}`, "spec: {entrypoint: b}\nstatus: {phase: Running}", "spec: {entrypoint: a}\nstatus: {phase: Running}"},
	}
	for _, kind := range []string{"HelmRelease", "Kustomization", "Bucket", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"} {
		rows["somebody has suspended a "+kind] = retentionRow{kind, `spec: {interval: 1m}`, `spec: {interval: 5m, suspend: true}`, `spec: {interval: 1m, suspend: true}`}
		rows["the hub resumes a "+kind] = retentionRow{kind, `spec: {interval: 1m, suspend: false}`, `spec: {suspend: true}`, `spec: {interval: 1m, suspend: false}`}
		rows["nobody has suspended a "+kind] = retentionRow{kind, `spec: {interval: 1m}`, `spec: {interval: 5m}`, `spec: {interval: 1m, suspend: null}`}
	}
	const queued = `metadata: {labels: {kueue.x-k8s.io/queue-name: q}}` + "\n"
	maps.Copy(rows, map[string]retentionRow{ // of kinds that wait in queues, or are scaled in the cluster
		"Kueue admits an MPIJob": {
			"MPIJob", queued + `spec: {runPolicy: {suspend: true, backoffLimit: 2}}`, queued + `spec: {runPolicy: {suspend: false, backoffLimit: 1}}`,
			`spec: {runPolicy: {suspend: false, backoffLimit: 2}}`,
		},
		"an MPIJob in no queue does what its spec says": {"MPIJob", `spec: {runPolicy: {suspend: true}}`, `spec: {runPolicy: {suspend: false}}`, `spec: {runPolicy: {suspend: true}}`},
		"Kueue stops a TFJob":                           {"TFJob", queued + `spec: {runPolicy: {suspend: false}}`, queued + `spec: {runPolicy: {suspend: true}}`, `spec: {runPolicy: {suspend: true}}`},
		"a TFJob in no queue does what its spec says":   {"TFJob", `spec: {runPolicy: {suspend: true}}`, `spec: {runPolicy: {suspend: false}}`, `spec: {runPolicy: {suspend: true}}`},
		"Kueue admits a PyTorchJob":                     {"PyTorchJob", queued + `spec: {runPolicy: {suspend: true}}`, queued + `spec: {runPolicy: {suspend: false}}`, `spec: {runPolicy: {suspend: false}}`},
		"the autoscaler of an elastic PyTorchJob has its workers": {
			"PyTorchJob", `spec: {elasticPolicy: {metrics: [{type: Resource}]}, pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 2}}}`,
			`spec: {pytorchReplicaSpecs: {Master: {replicas: 3}, Worker: {replicas: 5}}}`,
			`spec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 5}}}`,
		},
		"a PyTorchJob without an autoscaler has those of its spec": {
			"PyTorchJob", `spec: {pytorchReplicaSpecs: {Worker: {replicas: 2}}}`, `spec: {pytorchReplicaSpecs: {Worker: {replicas: 5}}}`, `spec: {pytorchReplicaSpecs: {Worker: {replicas: 2}}}`,
		},
		"Kueue admits a RayCluster": {"RayCluster", queued + `spec: {suspend: true}`, queued + `spec: {suspend: false}`, `spec: {suspend: false}`},
		"the autoscaler of a RayCluster has its workers, and those to delete": {
			"RayCluster", `spec: {enableInTreeAutoscaling: true, workerGroupSpecs: [{groupName: small, replicas: 1, maxReplicas: 9}]}`,
			`spec: {workerGroupSpecs: [{groupName: large, replicas: 2}, {groupName: small, replicas: 6, maxReplicas: 5, scaleStrategy: {workersToDelete: [w]}}]}`,
			`spec: {workerGroupSpecs: [{groupName: small, replicas: 6, maxReplicas: 9, scaleStrategy: {workersToDelete: [w]}}]}`,
		},
		"a RayCluster without an autoscaler has those of its spec": {
			"RayCluster", `spec: {workerGroupSpecs: [{groupName: small, replicas: 1}]}`, `spec: {workerGroupSpecs: [{groupName: small, replicas: 6}]}`, `spec: {workerGroupSpecs: [{groupName: small, replicas: 1}]}`,
		},
		"Kueue admits a RayJob":           {"RayJob", queued + `spec: {suspend: true}`, queued + `spec: {suspend: false}`, `spec: {suspend: false}`},
		"a RayJob in no queue is resumed": {"RayJob", `spec: {suspend: false}`, `spec: {suspend: true}`, `spec: {suspend: false}`},
		"Kueue admits a SparkApplication": {"SparkApplication", queued + `spec: {suspend: true, mode: cluster}`, queued + `spec: {suspend: false}`, `spec: {suspend: false, mode: cluster}`},
	})
	eachKindHasARow(t, lua.Retention, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			applied, err := operationsOf(t, row.kind).Retain(object(t, row.kind, row.desired), object(t, row.kind, row.observed))
			expect.NoError(t, err)
			if diff := lacks(object(t, row.kind, row.applied), applied); diff != "" {
				t.Errorf("what is applied differs (-want +got):\n%s", diff)
			}
		})
	}
}
