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
	"strings"

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
	// requestsOfAgentsMax is how many certificate requests of the agents of one cluster there
	// may be, those that they make for add-ons included.
	requestsOfAgentsMax = 4 * clusterv1.CSRsPerAgentMax
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
func keyOfAgents(group string) string    { return "agents/" + group }

// keyOfRequester is the key for which a request counts because of who makes it. Agents of one
// cluster share one: a cluster may have any number of them, each of which is a user.
func keyOfRequester(user string, groups []string) string {
	if !slices.Contains(groups, clusterv1.GroupManagedClusters) {
		return keyOfUser(user)
	}
	ofCluster := slices.IndexFunc(groups, func(group string) bool {
		return group != clusterv1.GroupManagedClusters && strings.HasPrefix(group, clusterv1.UserPrefix)
	})
	if ofCluster < 0 {
		return keyOfAgents(user)
	}
	return keyOfAgents(groups[ofCluster])
}

// requestLimiter refuses certificate requests of clusters, and of those who may ask to
// join, while there are too many of them: nothing but the API server's own cleaning up, of
// those that wait after a day and of others after an hour, makes them fewer. Which requests
// it is asked about is said in its configuration; it is never asked about those of kubelets
// and of others who have nothing to do with clusters.
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

// keepRequest keeps the name of a request, and what it counts for: while it waits, and until it is
// gone where nobody but the hub may have looked at it.
func keepRequest(object any) (any, error) {
	full, is := object.(*certificatesv1.CertificateSigningRequest)
	if !is {
		return object, nil
	}
	keys := tallyKeysOf(full, full.Spec.Username, full.Spec.Groups)
	if len(full.Status.Conditions) > 0 { // it is approved, denied or has failed
		keys = slices.DeleteFunc(keys, func(key string) bool { return !countsDecided(full, key) })
	}
	return keepTallyKeys(full.ObjectMeta, keys...), nil
}

// countsDecided reports whether a request that is decided about counts for a key as one that
// waits does: those of agents, which the hub approves by itself as renewals, and the first
// requests that it has approved by itself because of a bootstrap token.
func countsDecided(csr *certificatesv1.CertificateSigningRequest, key string) bool {
	return key == keyOfRequester(csr.Spec.Username, csr.Spec.Groups) &&
		(key != keyOfUser(csr.Spec.Username) || boundtoken.IsTokenUser(csr.Spec.Username) && isApprovedByHub(csr))
}

func isApprovedByHub(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved && c.Reason == clusterv1.CSRReasonAutoApproved
	})
}

// tallyKeysOf returns what a request of a user counts for while it waits.
func tallyKeysOf(csr *certificatesv1.CertificateSigningRequest, user string, groups []string) []string {
	keys := []string{keyOfRequester(user, groups)}
	cluster := csr.Labels[clusterv1.LabelClusterName]
	if !slices.Contains(groups, clusterv1.GroupManagedClusters) && (cluster != "" || slices.Contains(groups, clusterv1.GroupBootstrappers)) {
		keys = append(keys, keyOfJoiners)
	}
	if cluster != "" && !slices.Contains(groups, clusterv1.AgentGroup(cluster)) {
		keys = append(keys, keyOfCluster(cluster))
	}
	return keys
}

// requestBounds returns how many requests there may be that count for what this one does.
func (l *requestLimiter) requestBounds(csr *certificatesv1.CertificateSigningRequest, user authenticationv1.UserInfo) []tallyBound {
	agents := slices.Contains(user.Groups, clusterv1.GroupManagedClusters)
	var bounds []tallyBound
	for _, key := range tallyKeysOf(csr, user.Username, user.Groups) {
		switch limit := l.perUser; {
		case agents && key == keyOfRequester(user.Username, user.Groups):
			bounds = append(bounds, tallyBound{key, requestsOfAgentsMax})
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
// would count for the cluster, and any request if there are enough of its kind. Who may accept
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
	return requirePermission(ctx, l.access, acceptAttributes(cluster), func(missing error) error {
		return refused(fmt.Errorf("%s; creating more requires a permission: %w", describeExcess(*exceeded, cluster, request.UserInfo), missing))
	})
}

// describeExcess says what there are enough of, and what to do about it.
func describeExcess(exceeded tallyBound, cluster string, user authenticationv1.UserInfo) string {
	const advice = "wait for approval, and there may not be more: approve, deny or delete some of them, which \"kubectl get csr\" lists"
	switch exceeded.key {
	case keyOfJoiners:
		return fmt.Sprintf("%d certificate requests of all who ask to join %s", exceeded.limit, advice)
	case keyOfCluster(cluster):
		return fmt.Sprintf("%d certificate requests in the name of cluster %q, which its agents have not made, %s", exceeded.limit, cluster, advice)
	case keyOfUser(user.Username):
		counted := ""
		if boundtoken.IsTokenUser(user.Username) {
			counted = ". Those that the hub has approved automatically count, too, until the API server forgets them in an hour or two"
		}
		return fmt.Sprintf("%d certificate requests of user %q %s%s", exceeded.limit, user.Username, advice, counted)
	default:
		return fmt.Sprintf("there are %d certificate requests of the agents of user %q's cluster, and there may not be more: delete some of them, which "+
			"\"kubectl get csr\" lists, or wait until the API server forgets those that are decided about in an hour or two", exceeded.limit, user.Username)
	}
}
