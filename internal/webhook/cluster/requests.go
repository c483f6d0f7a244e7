// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=list;watch

const (
	// requestsOfAgentMax is how many certificate requests of one agent may wait, those
	// that it makes for add-ons included.
	requestsOfAgentMax = 10 * clusterv1.CSRsPerAgentMax
	// requestsForClusterMax is how many requests in the name of one cluster may wait that
	// its agents have not made. Agents of Open Cluster Management renew no certificate
	// while clusterv1.CSRsPerAgentMax requests in the name of their cluster wait.
	requestsForClusterMax = clusterv1.CSRsPerAgentMax - 2
	// usersTogether is how many times the limit of one user all who ask to join may have
	// together.
	usersTogether = 10
)

// keyOfJoiners is the key of a tally that all requests count for that no agent has made.
const keyOfJoiners = "joiners"

func keyOfUser(user string) string       { return "user/" + user }
func keyOfCluster(cluster string) string { return "cluster/" + cluster }

// requestLimiter refuses certificate requests of clusters, and of those who may ask to
// join, while too many of them wait: nothing but the API server's own cleaning up, after a
// day, makes them fewer. Which requests it is asked about is said in its configuration; it
// is never asked about those of kubelets and of others who have nothing to do with
// clusters.
type requestLimiter struct {
	tally  *waitTally
	access access.Reviewer
	// perUser is how many requests of one user may wait who is no agent; 0 is no limit.
	perUser int
}

// newRequestLimiter begins to watch the requests, until ctx ends.
func newRequestLimiter(ctx context.Context, clients kubernetes.Interface, reviewer access.Reviewer, perUser int, clock clock.PassiveClock) *requestLimiter {
	resource := clients.CertificatesV1().CertificateSigningRequests()
	shown, synced := watchCounted(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}, &certificatesv1.CertificateSigningRequest{}, keepRequest)
	return &requestLimiter{
		tally:  newWaitTally("certificate requests wait for approval", clock, shown, synced),
		access: reviewer, perUser: perUser,
	}
}

// keepRequest keeps the name of a request, and while it waits what it counts for.
func keepRequest(object any) (any, error) {
	full, is := object.(*certificatesv1.CertificateSigningRequest)
	if !is {
		return object, nil
	}
	if len(full.Status.Conditions) > 0 { // it is approved, denied or has failed
		return keepTallyKeys(full.ObjectMeta), nil
	}
	return keepTallyKeys(full.ObjectMeta, tallyKeysOf(full, full.Spec.Username, full.Spec.Groups)...), nil
}

// tallyKeysOf returns what a request of a user counts for while it waits.
func tallyKeysOf(csr *certificatesv1.CertificateSigningRequest, user string, groups []string) []string {
	keys := []string{keyOfUser(user)}
	cluster := csr.Labels[clusterv1.LabelClusterName]
	if !slices.Contains(groups, clusterv1.GroupManagedClusters) && (cluster != "" || slices.Contains(groups, clusterv1.GroupBootstrappers)) {
		keys = append(keys, keyOfJoiners)
	}
	if cluster != "" && !slices.Contains(groups, clusterv1.AgentGroup(cluster)) {
		keys = append(keys, keyOfCluster(cluster))
	}
	return keys
}

// requestBounds returns how many requests may wait that count for what this one does.
func (l *requestLimiter) requestBounds(csr *certificatesv1.CertificateSigningRequest, user authenticationv1.UserInfo) []tallyBound {
	agent := slices.Contains(user.Groups, clusterv1.GroupManagedClusters)
	var bounds []tallyBound
	for _, key := range tallyKeysOf(csr, user.Username, user.Groups) {
		switch limit := l.perUser; {
		case key == keyOfUser(user.Username) && agent:
			bounds = append(bounds, tallyBound{key, requestsOfAgentMax})
		case key == keyOfCluster(csr.Labels[clusterv1.LabelClusterName]):
			bounds = append(bounds, tallyBound{key, requestsForClusterMax})
		case limit == 0:
		case key == keyOfJoiners:
			bounds = append(bounds, tallyBound{key, usersTogether * limit})
		default:
			bounds = append(bounds, tallyBound{key, limit})
		}
	}
	return bounds
}

// Handle implements admission.Handler.
func (l *requestLimiter) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, access.RequestTimeout)
	defer cancel()
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := json.Unmarshal(request.Object.Raw, csr); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the CertificateSigningRequest %q: %w", request.Name, err))
	}
	err := l.checkWaitingLimit(admission.NewContextWithRequest(ctx, request), csr, request)
	if err == nil {
		return admission.Allowed("")
	}
	var status apierrors.APIStatus = apierrors.NewInternalError(err)
	if known, is := err.(apierrors.APIStatus); is {
		status = known
	}
	result := status.Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &result}}
}

// checkWaitingLimit refuses a request in the name of a cluster that the token of its user is not for, which
// would count for the cluster, and any request if there are enough that wait. Who may accept
// its cluster could approve them instead, and is not limited.
func (l *requestLimiter) checkWaitingLimit(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, request admission.Request) error {
	cluster := csr.Labels[clusterv1.LabelClusterName]
	refused := func(why error) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}, csr.Name, why)
	}
	bounds := boundtoken.BoundsOf(request.UserInfo.Username, request.UserInfo.Groups)
	if cluster != "" && !bounds.AllowsCluster(cluster) {
		return refused(fmt.Errorf("the token of user %q is bound to other cluster names than %q: %s; ask for one of these, or with another token",
			request.UserInfo.Username, cluster, bounds))
	}
	name := cmp.Or(csr.Name, string(request.UID)) // which an API server may make after the webhooks
	exceeded, err := l.tally.admitWithinBounds(ctx, name, ptr.Deref(request.DryRun, false), l.requestBounds(csr, request.UserInfo))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if exceeded == nil {
		return nil
	}
	whose := fmt.Sprintf("of user %q", request.UserInfo.Username)
	switch exceeded.key {
	case keyOfJoiners:
		whose = "of all who ask to join"
	case keyOfCluster(cluster):
		whose = fmt.Sprintf("in the name of cluster %q, which its agents have not made,", cluster)
	}
	return requirePermission(ctx, l.access, acceptAttributes(cluster), func(missing error) error {
		return refused(fmt.Errorf("%d certificate requests %s wait for approval, and there may not be more: approve, deny or delete some of them, "+
			"which \"kubectl get csr\" lists; creating more requires a permission: %w", exceeded.limit, whose, missing))
	})
}
