// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package twins

import "fmt"

// container is the container of a Deployment, with more fields.
func container(image, more string) string {
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf("containers: [{name: web, image: '%s'%s}]", image, more)
}

// listRows have lists that are merged by a key.
func listRows() []manifestRow {
	const (
		portTwice     = "ports: [{name: http, containerPort: 8080}, {name: metrics, containerPort: 8080}]"
		variableTwice = `env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: B, value: "3"}]`
		mergeKeys     = "kubectl apply merges lists by the fields that are there twice, so the hub would get another template"
	)
	return []manifestRow{
		{
			Name: "a port twice, as http and as metrics", replaces: mergeKeys,
			Steps: []manifestStep{
				sends(web("replicas: 1", container("i:1", portTwice))),
				sends(web("replicas: 1", container("i:2", portTwice))),
				sends(web("replicas: 1", container("i:2", "ports: [{name: http, containerPort: 8080}, {name: metrics, containerPort: 8080}, {name: debug, containerPort: 9090}]"))),
				sends(web("replicas: 1", container("i:2", "ports: [{name: metrics, containerPort: 8080}]"))),
			},
		},
		{
			Name: "a variable twice", replaces: mergeKeys,
			Steps: []manifestStep{
				sends(web("replicas: 1", container("i:1", variableTwice))),
				sends(web("replicas: 1", container("i:2", `env: [{name: A, value: "4"}, {name: A, value: "5"}]`))),
				sends(web("replicas: 1", container("i:2", `env: [{name: A, value: "5"}]`))),
				sends(web("replicas: 1", container("i:3", variableTwice))),
			},
		},
		{
			Name: "a port and a variable twice", replaces: mergeKeys,
			Steps: []manifestStep{
				sends(web("replicas: 1", container("i:1", portTwice+", "+variableTwice))),
				sends(web("replicas: 1", container("i:2", portTwice+", "+variableTwice))),
				sends(web("replicas: 1", container("i:2", ""))),
			},
		},
		{
			Name:   "an adopted Deployment loses a sidecar, a port and variables",
			policy: "conflictResolution: Overwrite, placement: {clusterAffinity: {clusterNames: [CLUSTER]}}",
			ours: web("replicas: 1, minReadySeconds: 5",
				`containers: [{name: web, image: 'i:0', ports: [{containerPort: 80}], env: [{name: DEBUG, value: "1"}]}, {name: sidecar, image: 'i:0'}]`),
			Steps: []manifestStep{
				sends(web("replicas: 1", container("i:1", ""))),
				sends(web("replicas: 1", container("i:1", `ports: [{containerPort: 80}], env: [{name: B, value: "1"}]`))),
				sends(web("replicas: 1", container("i:2", ""))),
			},
		},
	}
}

// workloadRows have fields of Deployments.
func workloadRows() []manifestRow {
	return []manifestRow{
		{
			Name: "strategy Recreate after the default, and back",
			Steps: []manifestStep{
				sends(web("replicas: 1", container("i:1", ""))),
				sends(web("replicas: 1, strategy: {type: Recreate}", container("i:1", ""))),
				sends(web("replicas: 1, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 3}}", container("i:1", ""))),
				sends(web("replicas: 1, strategy: {type: Recreate}", container("i:2", ""))),
			},
		},
		{
			Name: "replicas are taken out",
			Without: map[way]string{
				byPolicy: "the hub's API server writes 1 into a template without replicas, so that it is a template with 1",
			},
			Steps: []manifestStep{
				sends(web("replicas: 4", container("i:1", ""))),
				{manifests: []string{web("minReadySeconds: 0", container("i:1", ""))}, Right: []string{web("replicas: 4", container("i:1", ""))}, Why: "who says nothing does not say 1"},
				{
					manifests: []string{web("minReadySeconds: 0", container("i:2", ""))}, Right: []string{web("replicas: 4", container("i:2", ""))}, Why: "as before",
					others: "{spec: {replicas: 7}}",
				},
				{manifests: []string{web("minReadySeconds: 0", container("i:3", ""))}, Right: []string{web("replicas: 7", container("i:3", ""))}, Why: "somebody else has scaled it"},
				sends(web("replicas: 2", container("i:3", ""))),
			},
		},
		{
			Name: "the account of pods comes under either name, and goes",
			Steps: []manifestStep{
				sends(web("replicas: 1", "serviceAccount: a, "+container("i:1", ""))),
				sends(web("replicas: 1", "serviceAccountName: b, "+container("i:1", ""))),
				sends(web("replicas: 1", container("i:1", ""))),
				sends(web("replicas: 1", "serviceAccount: c, "+container("i:1", ""))),
				sends(web("replicas: 1", container("i:1", ""))),
				sends(web("replicas: 1", "serviceAccountName: d, serviceAccount: x, "+container("i:1", ""))),
			},
			replaces: "kubectl apply changes one of the two fields in a template, of which the API server prefers the other",
		},
		{
			Name: "a field of a Deployment that no schema has",
			Without: map[way]string{
				byPolicy: "the hub's API server has the same schema, and drops the field from the template; see the row of a custom resource",
			},
			Steps: []manifestStep{
				{manifests: []string{web("replicas: 1, nope: 1", container("i:1", ""))}, says: []string{"True", "Warning", ".spec.nope"}},
				{manifests: []string{web("replicas: 1, nope: 2", container("i:2", "imagine: x"))}, says: []string{"True", "Warning", "imagine"}},
				{manifests: []string{web("replicas: 1", container("i:3", ""))}, says: []string{"The object matches the manifest."}},
			},
		},
	}
}
